// Keys of inputs: name_inputs() of inputs.hpp.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/sample/sample.hpp"
#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {
namespace {

// "f-0000" next to "f": what clip.transcode calls the first clip of f.
bool is_clip_of_another(const std::string& key, const std::set<std::string>& videos) {
  const size_t digits = key.size() - 1 - std::min(key.size() - 1, key.find_last_not_of("0123456789"));
  if (digits < 4 || key.size() <= digits || key[key.size() - digits - 1] != '-') return false;
  const std::string video = key.substr(0, key.size() - digits - 1);
  return videos.count(video) || (!video.empty() && is_clip_of_another(video, videos));
}

std::string wanted_key(const Input& input) {
  std::string url = input.url;
  while (url.ends_with('/')) url.pop_back();
  return key_of_name(input.wanted.empty() ? std::filesystem::path(url).stem().string() : input.wanted);
}

// Whether take() or name_inputs() turns a taken base into this key: "f-2", "f-film".
bool is_made_of(const std::string& key, const std::string& base) {
  return key.starts_with(base + "-") && (key.find_first_not_of("0123456789", base.size() + 1) == key.npos ||
                                         key.compare(base.size(), key.npos, "-film") == 0);
}

// Names in use, and the next number to try for each: a million videos may have the same name.
class Names {
 public:
  explicit Names(std::set<std::string> used) : used_(std::move(used)) {}
  std::string take(const std::string& base) {
    std::string key = base;
    for (int& n = next_.try_emplace(base, 2).first->second; !used_.insert(key).second; ++n)
      key = base + "-" + std::to_string(n);
    return key;
  }
  // False: it is taken.
  bool take_just(const std::string& key) { return used_.insert(key).second; }
  void give_back(const std::string& key) { used_.erase(key); }
  bool has(const std::string& key) const { return used_.contains(key); }
  const std::set<std::string>& used() const { return used_; }

 private:
  std::set<std::string> used_;
  std::map<std::string, int> next_;
};

struct KeyRequest {
  Input* input;
  std::string key;        // from its manifest or its file name
  bool is_users = false;  // from its manifest
};

// Gives inputs their earlier name if `may` allows it.
template <typename May>
void keep_names(std::vector<KeyRequest>& requests, Names& names, const May& may) {
  std::erase_if(requests, [&](const KeyRequest& request) {
    const std::string& before = request.input->key_before;
    if (before.empty() || !may(request) || !names.take_just(before)) return false;
    request.input->key = before;
    return true;
  });
}

void give_names(std::vector<KeyRequest>& requests, Names& names, bool to_users) {
  std::erase_if(requests, [&](const KeyRequest& request) {
    if (request.is_users != to_users) return false;
    request.input->key = names.take(request.key);
    return true;
  });
}

}  // namespace

void name_inputs(std::vector<Input>& inputs, std::unordered_set<std::string> taken) {
  Names names({taken.begin(), taken.end()});
  std::vector<KeyRequest> requests;
  requests.reserve(inputs.size());
  for (Input& input : inputs) requests.push_back({&input, wanted_key(input), !input.wanted.empty()});
  keep_names(requests, names, [](const KeyRequest& request) {
    return request.is_users && request.input->key_before == request.key;
  });
  keep_names(requests, names, [&](const KeyRequest& request) {
    return request.is_users && names.has(request.key) && is_made_of(request.input->key_before, request.key);
  });
  give_names(requests, names, true);
  keep_names(requests, names, [](const KeyRequest& request) { return !request.is_users; });
  give_names(requests, names, false);
  const std::set<std::string> videos = names.used();
  for (Input& input : inputs) {
    if (!is_clip_of_another(input.key, videos)) continue;
    names.give_back(input.key);
    input.key = names.take(input.key + "-film");
  }
}

}  // namespace kinora::core
