// Still images of clips, made on demand and cached in bounded memory.
#pragma once
#include <condition_variable>
#include <mutex>
#include <set>

#include "apps/studio/film_decoder.hpp"
#include "apps/studio/picture_cache.hpp"
#include "apps/studio/studio.hpp"

namespace kinora::studio {

// HTTP entity tag, in quotes, of what get() returns; it changes with the footage.
std::string entity_tag(const PictureSource&);

// [any-thread]
class Pictures {
 public:
  // `bytes`: limit of all cached images.
  Pictures(core::Runtime& runtime, size_t bytes) : runtime_(runtime), kept_(bytes) {}

  // A JPEG of a frame one third into the range, but never far in, since decoding begins at a key frame. null if it
  // cannot be made, which is cached too. Two are made at once, each by a decoder process; further calls wait.
  Picture get(const PictureSource&);

 private:
  Picture make(FilmDecoder&, const PictureSource&) const;
  std::unique_ptr<FilmDecoder> taken();  // call under the lock

  core::Runtime& runtime_;
  std::mutex mutex_;
  std::condition_variable free_;
  std::set<std::string> making_;
  std::list<std::unique_ptr<FilmDecoder>> idle_;
  PictureCache kept_;
};

}  // namespace kinora::studio
