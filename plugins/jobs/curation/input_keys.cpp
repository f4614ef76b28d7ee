// Keys of inputs: name_inputs() of inputs.hpp.
#include <filesystem>

#include "core/sample/sample.hpp"
#include "plugins/jobs/curation/input_rows.hpp"

namespace kinora::core {
namespace {

// "f-0000" next to "f": what clip.transcode calls the first clip of f.
bool is_clip_of_another(const std::string& key, const InputRows& inputs) {
  const size_t digits = key.size() - 1 - std::min(key.size() - 1, key.find_last_not_of("0123456789"));
  if (digits < 4 || key.size() <= digits || key[key.size() - digits - 1] != '-') return false;
  const std::string video = key.substr(0, key.size() - digits - 1);
  return inputs.is_taken(video) || (!video.empty() && is_clip_of_another(video, inputs));
}

std::string wanted_key(const Input& input) {
  std::string url = input.url;
  while (url.ends_with('/')) url.pop_back();
  return key_of_name(input.wanted.empty() ? std::filesystem::path(url).stem().string() : input.wanted);
}

// Whether name_inputs() turns a taken base into this key: "f-2", "f-film".
bool is_made_of(const std::string& key, const std::string& base) {
  return key.starts_with(base + "-") && (key.find_first_not_of("0123456789", base.size() + 1) == key.npos ||
                                         key.compare(base.size(), key.npos, "-film") == 0);
}

// Gives the inputs that have no key and for which `may` is true the key that they had before, where it is free.
void keep_names(InputRows& inputs, const std::function<bool(const Input&)>& may) {
  if (!inputs.have_before()) return;
  inputs.each([&](size_t at, const Input& input) {
    if (input.key.empty() && !input.key_before.empty() && may(input)) inputs.name(at, input.key_before);
  });
}

void give_names(InputRows& inputs, bool to_users) {
  inputs.each([&](size_t at, const Input& input) {
    if (input.key.empty() && input.wanted.empty() != to_users) inputs.name_like(at, wanted_key(input));
  });
}

}  // namespace

void name_inputs(InputRows& inputs) {
  inputs.clear_keys();
  if (inputs.have_wanted()) {
    keep_names(inputs, [](const Input& input) {
      return !input.wanted.empty() && input.key_before == wanted_key(input);
    });
    keep_names(inputs, [&](const Input& input) {
      const std::string key = wanted_key(input);
      return !input.wanted.empty() && inputs.is_taken(key) && is_made_of(input.key_before, key);
    });
    give_names(inputs, true);
  }
  keep_names(inputs, [](const Input& input) { return input.wanted.empty(); });
  give_names(inputs, false);
  inputs.each([&](size_t at, const Input& input) {
    if (is_clip_of_another(input.key, inputs)) inputs.rename_like(at, input.key + "-film");
  });
}

}  // namespace kinora::core
