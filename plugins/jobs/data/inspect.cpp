#include "plugins/jobs/data/inspect.hpp"

#include <algorithm>
#include <thread>

#include <nlohmann/json.hpp>

#include "core/base/facts.hpp"
#include "core/io/io.hpp"
#include "core/runtime/call.hpp"
#include "kinora/json_nan.hpp"
#include "plugins/jobs/data/earlier_index.hpp"
#include "plugins/jobs/data/in_order.hpp"
#include "plugins/jobs/data/some_samples.hpp"
#include "plugins/jobs/data/stored_text.hpp"

namespace kinora::data {
namespace {

using nlohmann::json;

constexpr size_t kMostFields = 1000, kMostFacts = 1000, kKeys = 5;
constexpr uint64_t kLookedAt = 1000, kMostLooked = 1 << 20;

const char* type_of(const json& value) {
  if (value.is_number_integer()) return "integer";
  return value.type_name();  // number, string, boolean, array, object, null
}

uint64_t characters_of(std::string_view text) {
  return static_cast<uint64_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));  // UTF-8
}

// Counts of all samples, from their headers.
void count_samples(const DataFolder& folder, uint64_t threads, Overview& out) {
  if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
  core::Progress progress("inspect", static_cast<int64_t>(folder.shards.size()), "shards");
  std::map<std::string, std::vector<uint64_t>> sizes;
  InOrder<Piece> in_order(folder.shards.size(), threads);
  in_order.run(
      [&](size_t number, const InOrder<Piece>::Push& push) { list_shard(folder.shards[number], push); },
      [&](size_t number, const Piece& piece) {
        out.samples += piece.samples.size();
        if (piece.damage) out.problems.push_back(piece.damage->line());
        for (const auto& sample : piece.samples) {
          if (out.keys.size() < kKeys) out.keys.push_back(sample.key);
          for (const auto& part : sample.parts) {
            const auto at =
                sizes.size() < kMostFields ? sizes.try_emplace(part.name).first : sizes.find(part.name);
            if (at != sizes.end()) at->second.push_back(part.size);
          }
        }
        progress.update(static_cast<int64_t>(number) + 1);
      });
  for (auto& [name, all] : sizes) out.fields[name] = spread_of(all);
}

void look_at_texts(const DataFolder& folder, Overview& out) {
  std::vector<uint64_t> captions;
  const auto look = [&](const Shard& shard, const RandomBytes& bytes, const energon::StoredSample& sample) {
    ++out.looked_at;
    std::optional<std::string> caption;
    for (const auto& part : sample.parts) {
      if (part.size > kMostLooked || (part.name != "json" && part.name != "txt")) continue;
      const auto content = read_part(bytes, part);
      const std::string text = core::as_utf8({content.begin(), content.end()}, sample.key + "." + part.name);
      if (part.name == "txt") {
        caption = text;
        if (const auto flaw = flaw_of_caption(sample.key, text); !flaw.empty())
          out.problems.push_back(Problem{shard.name, sample.key, sample.offset, flaw}.line());
        continue;
      }
      json facts = json::parse(text, nullptr, false);
      if (facts.is_discarded()) facts = json::parse(without_nan(text), nullptr, false);
      if (facts.is_discarded())
        out.problems.push_back(Problem{shard.name, sample.key, sample.offset, not_json(part.name)}.line());
      if (!facts.is_object()) continue;
      for (const auto& [name, value] : facts.items())
        if (out.facts.size() < kMostFacts || out.facts.contains(name)) ++out.facts[name][type_of(value)];
      if (!caption && facts.contains("caption") && facts["caption"].is_string())
        caption = facts["caption"].get<std::string>();
    }
    if (caption) captions.push_back(characters_of(*caption));
  };
  some_samples(folder, kLookedAt, look, [](const Problem&) {});  // count_samples() has reported the damage
  out.captions = spread_of(captions);
}

bool is_of_shard_job(const DataFolder& folder) {
  return core::text_in(core::parse_facts(read_small(folder.uri + "/job.json").value_or("")), "kind") ==
         "shard";
}

std::string state_of_index(const DataFolder& folder) {
  if (folder.is_one_file) return "not compared with one shard; give its folder";
  if (!folder.meta.contains(".info.json")) return "none; kinora data index writes one";
  if (core::is_web(folder.uri))
    return "there; kinora data verify compares it";  // times change when files are copied
  const EarlierIndex index(folder);
  if (index.knows_exactly(folder.shards)) return "current";
  if (index.record().index.empty())
    return std::string("there, written by ") +
           (is_of_shard_job(folder) ? "the shard job" : "another program") +
           "; kinora data verify compares it";
  const auto unknown = std::count_if(folder.shards.begin(), folder.shards.end(),
                                     [&](const Shard& shard) { return !index.knows(shard); });
  return fmt::format(
      "out of date or incomplete ({} of {} shards are new, changed or damaged); run kinora data index",
      unknown, folder.shards.size());
}

}  // namespace

Spread spread_of(std::vector<uint64_t>& numbers) {
  if (numbers.empty()) return {};
  const auto middle = numbers.begin() + static_cast<ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  const auto [min, max] = std::minmax_element(numbers.begin(), numbers.end());
  return {numbers.size(), *min, *middle, *max};
}

Overview inspect_folder(const DataFolder& folder, uint64_t threads) {
  Overview out;
  out.shards = folder.shards.size();
  out.bytes = folder.bytes();
  out.index = state_of_index(folder);
  count_samples(folder, threads, out);
  look_at_texts(folder, out);
  return out;
}

}  // namespace kinora::data
