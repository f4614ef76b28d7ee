// A cache of keys and values as an object: a component instance and its link (kinora/abi/cache.h).
//
//   CacheInstance cache(context.open_slot("cache"), options, tokens_of_a_video);
//   Network model(..., {cache.link()});                      // the cache outlives the chain
//   cache.trim(KINORA_BRANCH_ALL, 0), cache.pin(0, given);   // before each video
//   for (...) { frames.start = done; chain.set_frames(frames);  chain.begin(pass);  model.forward(...);  }
#pragma once
#include <memory>

#include "core/plugin/options.hpp"
#include "core/plugin/registry.hpp"
#include "kinora/abi/cache.h"

namespace kinora::core {

// [owner-thread], as the table's calls are; their arguments too are explained there. Errors are
// kinora::Error and name the component.
class CacheInstance {
 public:
  // tokens: expected in each branch; 0: unknown. Throws the component's error about its options.
  CacheInstance(const Component&, const Options&, int64_t tokens = 0);

  const kinora_link* link() const { return link_; }
  int64_t tokens(uint32_t branch = 0) const;
  int64_t bytes() const;
  void reset(uint32_t branch = KINORA_BRANCH_ALL);
  void trim(uint32_t branch, int64_t tokens);
  void pin(int64_t first, int64_t count);

 private:
  int64_t counted(int32_t status, int64_t count, const char* what) const;
  const ComponentSpec& spec_;
  const kinora_cache& api_;
  std::unique_ptr<void, void (*)(void*)> self_;
  const kinora_link* link_ = nullptr;
};

}  // namespace kinora::core
