// A problem of a shard, as one line of text.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/base/printable.hpp"
#include "core/base/text_encoding.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/data/shards.hpp"

namespace kinora::data {

struct Problem {
  std::string shard;  // name, or a file of .nv-meta
  std::string key;    // empty: no sample of it is meant
  std::optional<uint64_t> offset;
  std::string what;  // "the field txt is empty; remove the sample or pack it again"

  // "SHARD: KEY at OFFSET: what; remedy". Fit for a terminal, whatever the names.
  std::string line() const {
    std::string place = key;
    if (offset) place += fmt::format("{}at {}", key.empty() ? "" : " ", *offset);
    std::string out = shard + ": " + place + (place.empty() ? "" : ": ") + what;
    for (char& c : out)
      if (c == '\n' || c == '\t') c = ' ';
    return core::printable(out);
  }
};

// The whole samples of a shard before its damage: the key of the last one, how many, and where that ends.
struct WholeSamples {
  std::string last;
  uint64_t count = 0, end = 0;
};

// Damage of a shard at `offset`. what: the message of the error.
Problem damage_of_shard(const Shard& shard, const WholeSamples& before, uint64_t offset,
                        std::string_view what);

// Whether an archive is damaged, or packed in a way that cannot be read (sparse files).
inline bool is_damage(const Error& e) {
  return e.code() == KINORA_ERROR_DATA || e.code() == KINORA_ERROR_UNSUPPORTED;
}
// The same, or the shard is missing or cannot be opened.
inline bool is_of_one_shard(const Error& e) {
  return is_damage(e) || e.code() == KINORA_ERROR_NOT_FOUND || e.code() == KINORA_ERROR_INVALID;
}

// Says that a field's content cannot be parsed.
inline std::string not_json(const std::string& field) {
  return "the field " + field + " is not JSON; write it again";
}

// Why training, which reads a caption with the same function, leaves the sample out; "" if it does not.
inline std::string flaw_of_caption(const std::string& key, std::string text) {
  const auto read = core::utf8_text(std::move(text), key + ".txt");
  return read ? "" : read.failure().message + "; training leaves the sample out, write its caption again";
}

// [owner-thread] Receives problems as they are found.
using OnProblem = std::function<void(const Problem&)>;

}  // namespace kinora::data
