// The small files of .nv-meta, by which Megatron-Energon finds shards. Needs nlohmann-json.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kinora/error.hpp"

KINORA_SDK_BEGIN

namespace kinora::energon {

struct ShardInfo {
  std::string name;  // shard-000000.tar
  uint64_t samples;
};

namespace detail {

// A name split at its last number: "shard-" "000041" ".tar".
struct Numbered {
  std::string before, digits, after;
};

inline Numbered split_number(const std::string& name) {
  const size_t end = name.find_last_of("0123456789");
  if (end == std::string::npos) return {name, "", ""};
  const size_t begin = name.find_last_not_of("0123456789", end) + 1;  // npos + 1 is 0
  return {name.substr(0, begin), name.substr(begin, end + 1 - begin), name.substr(end + 1)};
}

inline bool follows(const Numbered& a, const Numbered& b) {
  constexpr size_t kMostDigits = 18;  // of a number that fits
  if (a.before != b.before || a.after != b.after || a.digits.size() != b.digits.size() || a.digits.empty() ||
      a.digits.size() > kMostDigits)
    return false;
  return std::stoull(a.digits) + 1 == std::stoull(b.digits);
}

// A name as a YAML scalar: plain if it can be (YAML 1.2, section 7.3.3), else in quotes.
inline std::string yaml_name(const std::string& name) {
  constexpr std::string_view kIndicators = "-?:,[]{}#&*!|>'\"%@` ";
  const bool is_plain = !name.empty() && kIndicators.find(name.front()) == std::string_view::npos &&
                        name.find(": ") == std::string::npos && name.find(" #") == std::string::npos &&
                        name.back() != ':' && name.back() != ' ';
  if (is_plain) return name;
  std::string out = "'";
  for (const char c : name) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

}  // namespace detail

// Shortens runs of names that differ only in their last number: shard-{000000..000041}.tar.
inline std::vector<std::string> brace_list(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (size_t i = 0; i < names.size();) {
    const detail::Numbered first = detail::split_number(names[i]);
    detail::Numbered last = first;
    size_t end = i + 1;
    for (; end < names.size(); ++end) {
      detail::Numbered next = detail::split_number(names[end]);
      if (!detail::follows(last, next)) break;
      last = std::move(next);
    }
    out.push_back(end == i + 1 ? names[i]
                               : first.before + "{" + first.digits + ".." + last.digits + "}" + first.after);
    i = end;
  }
  return out;
}

// Content of .nv-meta/.info.json. Its names are in the order of the shard numbers in index.sqlite.
inline std::string info_json(const std::vector<ShardInfo>& shards) {
  nlohmann::ordered_json counts = nlohmann::ordered_json::object();
  // ordered_json looks for a key from the start: the names of a folder differ, so each is appended.
  auto& members = counts.get_ref<nlohmann::ordered_json::object_t&>();
  for (const auto& shard : shards) members.emplace_back(shard.name, shard.samples);
  nlohmann::ordered_json out;
  out["energon_version"] = "7.4.1+kinora";  // the version that defined this layout
  out["shard_counts"] = std::move(counts);
  return out.dump(2) + "\n";
}

// Content of .nv-meta/split.yaml: a share `val` of the shards, evenly spread, is for validation, the rest for
// training. Shards without samples are left out.
inline std::string split_yaml(const std::vector<ShardInfo>& shards, double val) {
  std::vector<std::string> train, held_out;
  double n = 0;  // shards so far
  for (const auto& shard : shards) {
    if (shard.samples == 0) continue;
    const bool is_val = std::floor((n + 1) * val + 1e-9) > std::floor(n * val + 1e-9);
    (is_val ? held_out : train).push_back(shard.name);
    n += 1;
  }
  std::string out = "split_parts:\n";
  const auto list = [&](const std::string& part, const std::vector<std::string>& names) {
    out += "  " + part + (names.empty() ? ": []\n" : ":\n");
    for (const auto& name : brace_list(names)) out += "  - " + detail::yaml_name(name) + "\n";
  };
  list("train", train);
  if (val > 0) list("val", held_out);
  return out + "exclude: []\n";
}

// Content of .nv-meta/dataset.yaml: samples as stored, which the training code decodes.
inline std::string dataset_yaml() { return "__module__: megatron.energon\n__class__: CrudeWebdataset\n"; }

}  // namespace kinora::energon

KINORA_SDK_END
