// Images by key in a bounded number of bytes; the least recently used are evicted first.
#pragma once
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace kinora::studio {

using Picture = std::shared_ptr<const std::string>;  // a JPEG; null: the clip is known to have none

class PictureCache {
 public:
  explicit PictureCache(size_t bytes) : limit_(bytes) {}
  std::optional<Picture> find(const std::string& key) {
    const auto at = kept_.find(key);
    if (at == kept_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, at->second.place);
    return at->second.picture;
  }
  bool contains(const std::string& key) const { return kept_.contains(key); }
  // The newest entry stays, whatever its size.
  void keep(const std::string& key, Picture picture) {
    drop(key);
    order_.push_front(key);
    bytes_ += size(key, picture);
    kept_[key] = {std::move(picture), order_.begin()};
    while (bytes_ > limit_ && order_.size() > 1) drop(std::string(order_.back()));
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Kept {
    Picture picture;
    std::list<std::string>::iterator place;
  };
  static size_t size(const std::string& key, const Picture& picture) {
    constexpr size_t kEntry = 256;  // bytes for nodes of the map and the list
    return kEntry + 2 * key.size() + (picture ? picture->size() : 0);
  }
  void drop(const std::string& key) {
    const auto at = kept_.find(key);
    if (at == kept_.end()) return;
    bytes_ -= size(key, at->second.picture);
    order_.erase(at->second.place);
    kept_.erase(at);
  }

  const size_t limit_;
  size_t bytes_ = 0;
  std::unordered_map<std::string, Kept> kept_;
  std::list<std::string> order_;  // most recently used first
};

}  // namespace kinora::studio
