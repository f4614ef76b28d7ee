#include "plugins/jobs/curation/known.hpp"

#include <unordered_map>
#include <unordered_set>

#include "plugins/jobs/curation/ends.hpp"
#include "core/base/facts.hpp"
#include "core/base/status.hpp"

namespace kinora::core {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& base) : base_(base) {}

  void take(const json& entry, Journal::Place place) {
    if (entry.contains("journal")) is_ours_ = text_in(entry, "base") == base_;
    if (!is_ours_) return;
    const bool whole = flag_in(entry, "whole");
    if (entry.contains("broke_off")) ends_.break_off(whole);
    if (entry.contains("retry_failed")) ends_.retry_failed(whole);
    if (const auto key = text_in(entry, "open_again"); !key.empty()) ends_.open_again(key, whole);
    if (const auto key = text_in(entry, "forget"); !key.empty()) ends_.forget(key);
    if (const auto key = text_in(entry, "input"); !key.empty()) {
      ends_.begin(key, text_in(entry, "identity"));
      if (urls_.try_emplace(key).second) order_.push_back(key);
      if (auto url = text_in(entry, "url"); !url.empty()) urls_[key] = std::move(url);
    }
    if (entry.contains("end")) take_end(entry, place);
  }

  std::vector<KnownFilm> films() {
    ends_.break_off(false);
    std::vector<KnownFilm> out;
    if (!ends_.nameless().empty()) return out;
    for (const auto& key : order_) {
      const auto* film = ends_.film(key);
      if (!film || urls_[key].empty()) continue;
      out.push_back({key, urls_[key], film->identity, film->ended && !film->unseen, 0});
      for (const auto& end : film->ends) out.back().made += end.made;
    }
    return out;
  }

 private:
  void take_end(const json& entry, Journal::Place place) {
    const json& line = entry["end"];
    End end;
    end.key = text_in(line, "key");
    end.place = place;
    end.made = flag_in(entry, "made");
    end.of_made = flag_in(entry, "of_made");
    end.failed = text_in(line, "end") == "failed";
    const std::string key = end.key;
    const bool made = end.made;
    // A late outcome stops a run; here it is ignored.
    (void)catching([&] { ends_.add(std::move(end), text_in(line, "parent")); });
    auto* film = made ? nullptr : ends_.film(key);
    if (!film) return;
    film->unseen = flag_in(entry, "unseen");
    if (auto& url = urls_[key]; url.empty()) url = text_in(line, "url");
  }

  const std::string& base_;
  bool is_ours_ = false;
  Ends ends_;
  std::vector<std::string> order_;
  std::unordered_map<std::string, std::string> urls_;
};

}  // namespace

std::vector<KnownFilm> known_films(const std::filesystem::path& folder, const std::string& base) {
  Reader reader(base);
  const Journal journal(
      folder / "journal.jsonl", [&](const json& entry, Journal::Place place) { reader.take(entry, place); }, true);
  return reader.films();
}

}  // namespace kinora::core
