// A cache of keys and values as an object: a component instance and its link (kinora/abi/cache.h).
//
//   CacheInstance cache(context.open_slot("cache"), options, tokens_of_a_video);
//   Model model(..., {cache.link()});                        // the cache outlives the chain
//   for (...) { frames.start = done; chain.set_frames(frames);  chain.begin(pass);  model.forward(...);  }
#pragma once
#include "core/plugin/opening.hpp"
#include "kinora/abi/cache.h"

namespace kinora::core {

// [owner-thread], as the table's calls are; their arguments too are explained there. Errors are
// kinora::Error and name the component.
class CacheInstance {
 public:
  // tokens: expected in each branch; 0: unknown. Throws the component's error about its options.
  CacheInstance(const Component&, const Options&, int64_t tokens = 0);

  const kinora_link* link() const { return link_; }
  int64_t tokens(uint64_t session, uint32_t branch = 0) const;
  int64_t bytes(uint64_t session) const;
  void reset(uint64_t session) { called(api_.reset(self_.get(), session, KINORA_BRANCH_ALL), spec_.id); }
  void pin(uint64_t session, int64_t first, int64_t count) {
    called(api_.pin(self_.get(), session, first, count), spec_.id);
  }
  void unpin(uint64_t session, int64_t first, int64_t count) {
    called(api_.unpin(self_.get(), session, first, count), spec_.id);
  }
  void trim(uint64_t session, int64_t tokens) {
    called(api_.trim(self_.get(), session, KINORA_BRANCH_ALL, tokens), spec_.id);
  }

 private:
  int64_t counted(int32_t status, const int64_t& count, const char* what) const;
  const ComponentSpec& spec_;
  const kinora_cache& api_;
  Instance self_;
  const kinora_link* link_ = nullptr;
};

}  // namespace kinora::core
