#include "apps/validate/trial_chain.hpp"

#include <atomic>

#include "core/runtime/tensor_service.hpp"
#include "kinora/context.hpp"

namespace kinora {
TrialChain::TrialChain(const core::PlainChainOptions& options, const std::vector<const kinora_link*>& links)
    : TrialChain(options.seed, core::tensors().plain_chain(options, links)) {}

TrialChain::TrialChain(uint64_t seed, std::unique_ptr<core::PlainChain> chain)
    : CountedContext(chain->head(), 1), seed_(seed), chain_(std::move(chain)) {
  table_.parameter = parameter;
  table_.block = block;
}

int32_t TrialChain::parameter(void* self, const kinora_param_spec* spec, kinora_param* out) {
  auto& chain = from(self);
  const int32_t status = chain.of_->parameter(chain.of_->self, spec, out);
  int64_t n = 1;
  for (uint32_t i = 0; status == KINORA_OK && i < spec->ndim; ++i) n *= spec->shape[i];
  if (status == KINORA_OK) chain.numel_ += n;
  return status;
}

// A block of the plugin, which a link may keep for the backward.
struct TrialChain::Kept {
  kinora_block of;
  std::atomic<int64_t> uses = 1;

  static int32_t run(void* self, const kinora_tensor* in, kinora_tensor* out) {
    const auto& b = static_cast<Kept*>(self)->of;
    const int32_t status = b.fn(b.user, in, out);
    if (status == KINORA_OK) watch().tensors -= b.n_out;
    return status;
  }
  static void retain(void* self) {
    auto* kept = static_cast<Kept*>(self);
    kept->of.retain(kept->of.user);
    ++kept->uses;
  }
  static void release(void* self) {
    auto* kept = static_cast<Kept*>(self);
    kept->of.release(kept->of.user);
    drop(kept);
  }
  static void drop(Kept* kept) {
    if (--kept->uses == 0) delete kept;
  }
};

// The block's results are the plugin's handles until fn() returns them to the chain, which gives new ones.
int32_t TrialChain::block(void* self, const kinora_block* given, const kinora_tensor* in,
                          kinora_tensor* out) {
  const auto& c = *from(self).of_;
  auto* kept = new Kept{detail::whole(given)};
  kinora_block mine = kept->of;
  mine.user = kept;
  mine.fn = Kept::run;
  mine.retain = Kept::retain;
  mine.release = Kept::release;
  const int32_t status = c.block(c.self, &mine, in, out);
  Kept::drop(kept);
  if (status == KINORA_OK) watch().tensors += given->n_out;
  return status;
}

void TrialChain::begin(bool no_grad, kinora_pass pass, int64_t frames) {
  pass.struct_size = sizeof pass;
  pass.no_grad = no_grad ? 1 : 0;
  pass.seed = seed_;
  chain_->begin(pass, frames);
}

std::vector<TrialChain::Leaf> TrialChain::leaves() const {
  std::vector<Leaf> out;
  for (const auto& leaf : chain_->leaves())
    out.push_back({leaf.name, (++watch().tensors, Tensor::adopt(leaf.tensor)), leaf.frozen});
  return out;
}

}  // namespace kinora
