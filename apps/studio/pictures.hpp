// Still pictures of clips, made when they are looked at and kept in bounded memory.
#pragma once
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "apps/studio/studio.hpp"
#include "core/runtime.hpp"

namespace kinora::studio {

// [any-thread]
class Pictures {
 public:
  static constexpr int kHeight = 180;  // pixels
  // `bytes`: of all pictures kept; the least recently asked go first.
  Pictures(core::Runtime& runtime, size_t bytes) : runtime_(runtime), limit_(bytes) {}

  // A JPEG from a third into the range, but never far in, since decoding begins at a key frame. null: it
  // cannot be made, which is remembered too. Two are made at once; more wait.
  std::shared_ptr<const std::string> get(const PictureSource&);

 private:
  using Picture = std::shared_ptr<const std::string>;
  struct Kept {
    Picture picture;
    std::list<std::string>::iterator place;
  };
  Picture make(const PictureSource&) const;
  void keep(const std::string& key, Picture);

  core::Runtime& runtime_;
  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable free_;
  std::set<std::string> making_;
  std::unordered_map<std::string, Kept> kept_;
  std::list<std::string> order_;  // last asked first
  size_t bytes_ = 0;
};

}  // namespace kinora::studio
