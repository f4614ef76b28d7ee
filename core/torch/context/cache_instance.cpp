#include "core/torch/context/cache_instance.hpp"

#include "core/plugin/host.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

CacheInstance::CacheInstance(const Component& c, const Options& o, int64_t tokens)
    : spec_(*c.spec),
      api_(c.table<kinora_cache>()),
      self_(made([&] { return api_.create(host(), o.abi(), tokens); }, c.spec->id), api_.destroy) {
  called(api_.link(self_.get(), &link_), spec_.id);
  if (!link_) raise(KINORA_ERROR_FAILED, "{}: link returned no link", spec_.id);
  if (link_->level != KINORA_LEVEL_CACHE)
    raise(KINORA_ERROR_FAILED, "{}: its link has level {}; a cache's is {}", spec_.id, link_->level,
          KINORA_LEVEL_CACHE);
}

int64_t CacheInstance::counted(int32_t status, int64_t count, const char* what) const {
  called(status, spec_.id);
  if (count < 0) raise(KINORA_ERROR_FAILED, "{}: {} returned {}", spec_.id, what, count);
  return count;
}

int64_t CacheInstance::tokens(uint32_t branch) const {
  int64_t out = -1;
  const int32_t status = api_.tokens(self_.get(), branch, &out);
  return counted(status, out, "tokens");
}

int64_t CacheInstance::bytes() const {
  int64_t out = -1;
  const int32_t status = api_.bytes(self_.get(), &out);
  return counted(status, out, "bytes");
}

void CacheInstance::reset(uint32_t branch) { called(api_.reset(self_.get(), branch), spec_.id); }

void CacheInstance::trim(uint32_t branch, int64_t tokens) {
  called(api_.trim(self_.get(), branch, tokens), spec_.id);
}

void CacheInstance::pin(int64_t first, int64_t count) {
  called(api_.pin(self_.get(), first, count), spec_.id);
}

}  // namespace kinora::core
