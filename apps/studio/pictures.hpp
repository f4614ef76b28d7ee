// Still pictures of clips, made when they are looked at and kept in bounded memory.
#pragma once
#include <condition_variable>
#include <mutex>
#include <set>

#include "apps/studio/film_decoder.hpp"
#include "apps/studio/picture_cache.hpp"
#include "apps/studio/studio.hpp"

namespace kinora::studio {

// Of what get() gives, quoted as HTTP has it: another where the footage is another.
std::string entity_tag(const PictureSource&);

// [any-thread]
class Pictures {
 public:
  // `bytes`: of all pictures kept.
  Pictures(core::Runtime& runtime, size_t bytes) : runtime_(runtime), kept_(bytes) {}

  // A JPEG from a third into the range, but never far in, since decoding begins at a key frame. null: it
  // cannot be made, which is remembered too. Two are made at once, each by a process that decodes; more wait.
  Picture get(const PictureSource&);

 private:
  Picture make(FilmDecoder&, const PictureSource&) const;
  std::unique_ptr<FilmDecoder> taken();  // under the lock

  core::Runtime& runtime_;
  std::mutex mutex_;
  std::condition_variable free_;
  std::set<std::string> making_;
  std::list<std::unique_ptr<FilmDecoder>> idle_;
  PictureCache kept_;
};

}  // namespace kinora::studio
