#include "plugins/jobs/data/check_shard.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "core/base/cancel.hpp"
#include "kinora/json_nan.hpp"
#include "kinora/sample.hpp"
#include "plugins/jobs/data/media.hpp"
#include "plugins/jobs/data/stored_text.hpp"

namespace kinora::data {
namespace {

constexpr size_t kMostOfSample = 1000;  // as WebDatasetReader
constexpr uint64_t kMostParsed = uint64_t{64} << 20;
constexpr const char* kPackAgain = "; pack the shard again";

bool is_json(std::string_view field) { return field_name(field) == "json" || field.ends_with(".json"); }

bool is_caption(std::string_view field) { return field_name(field) == "txt"; }

bool leaves_folder(std::string_view name) {
  const std::filesystem::path path(name);
  return path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
}

// Why readers leave the sample out for its names; "" if they do not.
std::string flaw_of_names(const energon::StoredSample& sample) {
  try {
    Sample named(sample.key);
    for (const auto& part : sample.parts) {
      named.set(part.name.c_str(), std::string_view());
      named.remove(part.name.c_str());
    }
    return "";
  } catch (const Error& e) {
    if (e.code() != KINORA_ERROR_INVALID) throw;
    return std::string(e.what()) + "; readers leave the sample out";
  }
}

// The checks of one shard, member by member.
class Check {
 public:
  Check(const Shard& shard, const DecodeMedium& decode, const std::function<bool(CheckedPiece)>& push)
      : shard_(shard), decode_(decode), push_(push) {}

  void run() {
    try {
      TarReader tar(RandomBytes::of_file(shard_.uri));
      read(tar);
      if (is_stopped_) return;
      if (auto last = grouping_.finish(tar.end())) end_sample(*std::move(last));
      if (whole_.count == 0)
        piece_.problems.push_back(
            {shard_.name,
             "",
             {},
             "no file in it is a field of a sample, such as KEY.json; remove the shard, or pack it again"});
      check_index(tar.end());
    } catch (const Error& e) {
      if (!is_of_one_shard(e)) throw;
      piece_.problems.push_back(damage_of_shard(shard_, whole_, end_, e.what()));
    }
    flush();
  }

 private:
  void read(TarReader& tar) {
    if (!tar.seekable())
      throw Error(KINORA_ERROR_DATA,
                  "the shard is compressed, so its samples cannot be read at random; unpack it");
    while (auto member = tar.next()) {
      if (leaves_folder(member->name))
        add(member->name, member->header, "the name leads out of the folder; do not unpack it, pack it anew");
      if (auto ended = grouping_.add(member->name, member->header, member->content(), member->size))
        end_sample(*std::move(ended));
      if (const auto name = split_member_name(member->name)) check_content(tar, *member, *name);
      end_ = tar.end();
      if (is_stopped_) return;
      if (grouping_.open_parts() > 100'000)
        throw Error(KINORA_ERROR_DATA, "a sample has more than 100000 fields; is it a WebDataset?");
    }
  }

  // Reads the content; a storage that cannot deliver it throws.
  void check_content(TarReader& tar, const TarMember& member, const WebDatasetName& name) {
    const std::string key(name.key), field(name.field);
    const auto refuse = [&](const std::string& what) { add(key, member.header, what); };
    if (is_json(field) && member.size <= kMostParsed) {
      const auto bytes = tar.content();
      const std::string text = core::as_utf8({bytes.begin(), bytes.end()}, key + "." + field);
      if (!bytes.empty() && !nlohmann::json::accept(text) && !nlohmann::json::accept(without_nan(text)))
        refuse(not_json(field));
    } else if (is_caption(field) && member.size <= kMostParsed) {
      const auto bytes = tar.content();
      if (auto flaw = flaw_of_caption(key, {bytes.begin(), bytes.end()}); !flaw.empty()) refuse(flaw);
    } else if (decode_ && is_decoded(field) && member.size > 0 &&
               member.size <= WebDatasetLimits{}.sample_bytes) {
      const std::string why = decode_(key, field, tar.content());
      if (!why.empty()) refuse("the field " + field + " cannot be decoded: " + why);
    } else {
      tar.content([](const uint8_t*, size_t) {});
      if (is_json(field) || is_caption(field))
        refuse("the field " + field + " has more than 64 MiB; readers parse it at once");
    }
  }

  void end_sample(energon::StoredSample sample) {
    if (!leaves_folder(sample.key))
      if (auto flaw = flaw_of_names(sample); !flaw.empty()) add(sample.key, sample.offset, std::move(flaw));
    std::set<std::string> seen;
    uint64_t bytes = 0;
    for (const auto& part : sample.parts) {
      bytes += part.size;
      if (!seen.insert(field_name(part.name)).second)
        add(sample.key, sample.offset,
            "the field " + part.name + " comes twice; readers take one of them" + kPackAgain);
    }
    if (bytes == 0) {
      add(sample.key, sample.offset, "the sample has 0 bytes; remove it or pack it again");
    } else {
      for (const auto& part : sample.parts)
        if (part.size == 0)
          add(sample.key, sample.offset,
              "the field " + part.name + " is empty; remove the sample or pack it again");
    }
    if (bytes > WebDatasetLimits{}.sample_bytes)
      add(sample.key, sample.offset,
          fmt::format("the sample has {} bytes where readers take at most {}; split it", bytes,
                      WebDatasetLimits{}.sample_bytes));
    if (sample.parts.size() > kMostOfSample)
      add(sample.key, sample.offset,
          fmt::format("the sample has {} fields where readers take at most {}; is it a WebDataset?",
                      sample.parts.size(), kMostOfSample));
    whole_ = {sample.key, whole_.count + 1, sample.offset + sample.size};
    index_.add(sample);
    piece_.samples.push_back(std::move(sample));
    if (piece_.samples.size() >= 1024 || piece_.problems.size() >= 1024) flush();
  }

  void check_index(uint64_t end) {
    if (!shard_.index_size) return;
    if (read_small(shard_.uri + ".idx") == index_.finish(end)) return;
    piece_.problems.push_back({shard_.name + ".idx",
                               "",
                               {},
                               "the offsets are not those of the shard; run kinora data index with --again"});
  }

  void add(const std::string& key, uint64_t offset, std::string what) {
    piece_.problems.push_back({shard_.name, key, offset, std::move(what)});
  }

  void flush() {
    if (core::cancelled()) throw Error(KINORA_ERROR_CANCELLED, "interrupted");
    is_stopped_ = !push_(std::exchange(piece_, {}));
  }

  const Shard& shard_;
  const DecodeMedium& decode_;
  const std::function<bool(CheckedPiece)>& push_;
  energon::Grouping grouping_;
  energon::TarIndex index_;
  CheckedPiece piece_;
  WholeSamples whole_;  // so far
  uint64_t end_ = 0;    // of the last member
  bool is_stopped_ = false;
};

}  // namespace

void check_shard(const Shard& shard, const DecodeMedium& decode,
                 const std::function<bool(CheckedPiece)>& push) {
  Check(shard, decode, push).run();
}

}  // namespace kinora::data
