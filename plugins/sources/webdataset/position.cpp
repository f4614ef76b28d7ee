#include "position.hpp"

#include <charconv>

#include "kinora/error.hpp"

namespace kinora::webdataset {
namespace {

constexpr std::string_view kHead = "kinora.webdataset/2 ";

[[noreturn]] void refuse() {
  throw Error(KINORA_ERROR_INVALID,
              "the state is not one of source/webdataset, or it is damaged; begin without a state");
}

// The number before the next space, as write() prints it.
uint64_t take_number(std::string_view& text) {
  const size_t end = text.find(' ');
  if (end == std::string_view::npos) refuse();
  const std::string_view word = text.substr(0, end);
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || stop != word.data() + word.size() || std::to_string(value) != word) refuse();
  text.remove_prefix(end + 1);
  return value;
}

}  // namespace

uint64_t hash_of(std::string_view bytes) {
  uint64_t hash = 14695981039346656037U;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

std::string write(const Position& p) {
  std::string text;
  for (const uint64_t n : {p.shard, p.shards, p.files, p.names, p.file, p.passed, p.lost, p.offset, p.bytes})
    text += std::to_string(n) + " ";
  text += p.key;
  return std::string(kHead) + std::to_string(hash_of(text)) + " " + text;
}

Position read_position(std::string_view state) {
  if (!state.starts_with(kHead)) refuse();
  state.remove_prefix(kHead.size());
  const uint64_t hash = take_number(state);
  if (hash != hash_of(state)) refuse();
  Position p;
  for (uint64_t* n :
       {&p.shard, &p.shards, &p.files, &p.names, &p.file, &p.passed, &p.lost, &p.offset, &p.bytes})
    *n = take_number(state);
  p.key = state;
  return p;
}

}  // namespace kinora::webdataset
