// Keys of inputs: name_inputs() of inputs.hpp.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/curate/inputs.hpp"

namespace kinora::core {
namespace {

constexpr size_t kLongest = 150;  // with a clip's number and a field's name it is still a file's name

// "f-0000" beside "f": what clip.transcode calls the first clip of f.
bool is_clip_of_another(const std::string& key, const std::set<std::string>& films) {
  const size_t digits = key.size() - 1 - std::min(key.size() - 1, key.find_last_not_of("0123456789"));
  if (digits < 4 || key.size() <= digits || key[key.size() - digits - 1] != '-') return false;
  const std::string film = key.substr(0, key.size() - digits - 1);
  return films.count(film) || (!film.empty() && is_clip_of_another(film, films));
}

// Bytes that are no UTF-8 become U+FFFD: keys stand in JSON.
std::string valid_utf8(const std::string& text) {
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

std::string cut(std::string text) {
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

std::string wanted_key(const Input& input) {
  std::string url = input.url;
  while (url.ends_with('/')) url.pop_back();
  std::string name = input.key.empty() ? std::filesystem::path(url).stem().string() : input.key;
  name = valid_utf8(name);
  for (auto& c : name) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (control || c == '.' || c == '/') c = '-';
  }
  return name.empty() ? "film" : cut(name);
}

// Names that are taken, and where to go on counting for each: a million films may have one name.
class Names {
 public:
  std::string take(const std::string& base) {
    std::string key = base;
    for (int& n = next_.try_emplace(base, 2).first->second; !used_.insert(key).second; ++n)
      key = base + "-" + std::to_string(n);
    return key;
  }
  void give_back(const std::string& key) { used_.erase(key); }
  const std::set<std::string>& used() const { return used_; }

 private:
  std::set<std::string> used_;
  std::map<std::string, int> next_;
};

}  // namespace

void name_inputs(std::vector<Input>& inputs) {
  Names names;
  std::vector<Input*> unnamed;
  for (auto& input : inputs) {
    if (input.key.empty())
      unnamed.push_back(&input);
    else
      input.key = names.take(wanted_key(input));
  }
  for (Input* input : unnamed) input->key = names.take(wanted_key(*input));
  const std::set<std::string> films = names.used();
  for (auto& input : inputs) {
    if (!is_clip_of_another(input.key, films)) continue;
    names.give_back(input.key);
    input.key = names.take(input.key + "-film");
  }
}

}  // namespace kinora::core
