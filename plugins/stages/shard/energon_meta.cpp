#include "energon_meta.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

namespace kinora::shard {
namespace {

// A name split at its last number: "shard-" "000041" ".tar".
struct Numbered {
  std::string before, digits, after;
};

Numbered split_number(const std::string& name) {
  const size_t end = name.find_last_of("0123456789");
  if (end == std::string::npos) return {name, "", ""};
  const size_t begin = name.find_last_not_of("0123456789", end) + 1;  // npos + 1 is 0
  return {name.substr(0, begin), name.substr(begin, end + 1 - begin), name.substr(end + 1)};
}

bool follows(const Numbered& a, const Numbered& b) {
  if (a.before != b.before || a.after != b.after || a.digits.size() != b.digits.size() || a.digits.empty())
    return false;
  return std::stoull(a.digits) + 1 == std::stoull(b.digits);
}

void list_part(std::string& out, const char* part, const std::vector<std::string>& names) {
  out += std::string("  ") + part + (names.empty() ? ": []\n" : ":\n");
  for (const auto& name : brace_list(names)) out += "  - " + name + "\n";
}

}  // namespace

std::string tar_index(const std::vector<StoredSample>& samples, uint64_t end) {
  std::string out;
  const auto put = [&](uint64_t v) {
    for (int i = 0; i < 8; ++i) out += static_cast<char>(v >> (8 * i));
  };
  for (const auto& s : samples) put(s.offset);
  put(end);
  return out;
}

std::vector<std::string> brace_list(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (size_t i = 0; i < names.size();) {
    const Numbered first = split_number(names[i]);
    Numbered last = first;
    size_t end = i + 1;
    for (; end < names.size(); ++end) {
      Numbered next = split_number(names[end]);
      if (!follows(last, next)) break;
      last = std::move(next);
    }
    out.push_back(end == i + 1 ? names[i]
                               : first.before + "{" + first.digits + ".." + last.digits + "}" + first.after);
    i = end;
  }
  return out;
}

std::string info_json(const std::vector<ShardInfo>& shards) {
  nlohmann::ordered_json out;
  out["energon_version"] = "7.4.1+kinora";  // the version that defined this layout
  out["shard_counts"] = nlohmann::ordered_json::object();
  for (const auto& shard : shards) out["shard_counts"][shard.name] = shard.samples;
  return out.dump(2) + "\n";
}

std::string split_yaml(const std::vector<ShardInfo>& shards, double val) {
  std::vector<std::string> train, held_out;
  for (size_t i = 0; i < shards.size(); ++i) {
    const double n = static_cast<double>(i);
    const bool is_val = std::floor((n + 1) * val + 1e-9) > std::floor(n * val + 1e-9);
    (is_val ? held_out : train).push_back(shards[i].name);
  }
  std::string out = "split_parts:\n";
  list_part(out, "train", train);
  if (val > 0) list_part(out, "val", held_out);
  return out + "exclude: []\n";
}

std::string dataset_yaml() { return "__module__: megatron.energon\n__class__: CrudeWebdataset\n"; }

std::string index_uuid(uint64_t high, uint64_t low) {
  high = (high & ~uint64_t{0xf000}) | 0x8000;                // version 8: custom content
  low = (low & ~(uint64_t{3} << 62)) | (uint64_t{2} << 62);  // the variant of RFC 9562
  char text[37];
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(high >> 32),
                static_cast<unsigned>(high >> 16 & 0xffff), static_cast<unsigned>(high & 0xffff),
                static_cast<unsigned>(low >> 48), static_cast<unsigned long long>(low & 0xffffffffffff));
  return text;
}

void IndexHash::add(std::string_view text) {
  constexpr Wide kPrime = (Wide{1} << 88) | 0x13b;
  for (const unsigned char c : text) state_ = (state_ ^ c) * kPrime;
  state_ = (state_ ^ 0x100) * kPrime;  // separator: "ab","c" differs from "a","bc"
}

void IndexHash::add(uint64_t number) {
  add(std::string_view(reinterpret_cast<const char*>(&number), sizeof number));
}

void IndexHash::add(const ShardInfo& shard, const std::vector<StoredSample>& samples) {
  add(shard.name);
  for (const auto& s : samples) {
    add(s.key);
    add(s.offset);
    for (const auto& part : s.parts) {
      add(part.name);
      add(part.size);
    }
  }
}

}  // namespace kinora::shard
