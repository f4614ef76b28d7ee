#include "core/torch/network/cache_instance.hpp"

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

CacheInstance::CacheInstance(const Component& c, const Options& o, int64_t tokens)
    : spec_(*c.spec), api_(c.table<kinora_cache>()), self_(instance_of<kinora_cache>(c, o, tokens)) {
  called(api_.link(self_.get(), &link_), spec_.id);
  if (!link_) raise(KINORA_ERROR_FAILED, "{}: link returned no link", spec_.id);
  if (link_->level != KINORA_LEVEL_CACHE)
    raise(KINORA_ERROR_FAILED, "{}: its link has level {}; a cache's is {}", spec_.id, link_->level,
          KINORA_LEVEL_CACHE);
}

// count: written by the call whose status is given.
int64_t CacheInstance::counted(int32_t status, const int64_t& count, const char* what) const {
  called(status, spec_.id);
  if (count < 0) raise(KINORA_ERROR_FAILED, "{}: {} returned {}", spec_.id, what, count);
  return count;
}

int64_t CacheInstance::tokens(uint64_t session, uint32_t branch) const {
  int64_t out = -1;
  return counted(api_.tokens(self_.get(), session, branch, &out), out, "tokens");
}

int64_t CacheInstance::bytes(uint64_t session) const {
  int64_t out = -1;
  return counted(api_.bytes(self_.get(), session, &out), out, "bytes");
}

}  // namespace kinora::core
