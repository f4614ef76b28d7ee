#include "sample_name.hpp"

#include <algorithm>
#include <string>

#include "kinora/error.hpp"

namespace kinora::shard {
namespace {

[[noreturn]] void refuse(std::string_view key, const std::string& why) {
  throw Error(KINORA_DATA, "sample '" + std::string(key) + "' cannot be stored: " + why);
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c == 127; });
}

// Whether a part is "__x__", which readers treat as a comment and skip.
bool is_note(std::string_view part) {
  return part.size() >= 4 && part.starts_with("__") && part.ends_with("__");
}

}  // namespace

void check_key(std::string_view key) {
  if (key.empty()) refuse(key, "its key is empty; give every sample a key");
  if (has_control(key)) refuse(key, "its key contains a control character; use letters, digits, '-' and '_'");
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    const std::string_view part = key.substr(at, end - at);
    const bool last = end == key.size();
    if (part.empty() || part == "." || part == "..")
      refuse(key, "its key has an empty part, '.' or '..' between slashes; remove it");
    if (is_note(part))
      refuse(key, "readers skip names such as '" + std::string(part) + "'; choose another key");
    if (last && part.find('.') != std::string_view::npos)
      refuse(key,
             "a key may have no dot after its last slash, because readers end the key there; replace the dot "
             "with '-' or '_'");
    at = end + 1;
  }
}

void check_field(std::string_view key, std::string_view field) {
  if (field.empty() || field.find('/') != std::string_view::npos || has_control(field))
    refuse(key, "the field name '" + std::string(field) +
                    "' is empty or has a slash or a control character; rename the field");
}

}  // namespace kinora::shard
