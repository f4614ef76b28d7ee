#include "apps/kinora/validate/trial_chain.hpp"

#include <atomic>

#include "kinora/context.hpp"

namespace kinora {
namespace {

// A handle that libkinora_torch made: the watching host counts it from here on.
Tensor counted(kinora_tensor made) {
  ++watch().tensors;
  return Tensor::adopt(made);
}

}  // namespace

// A call of the context whose last argument receives a tensor.
template <class... A, int32_t (*kinora_context::*Slot)(void*, A...)>
struct TrialChain::Counted<Slot> {
  static int32_t call(void* self, A... a) {
    const auto& c = static_cast<TrialChain*>(self)->head();
    const int32_t status = (c.*Slot)(c.self, a...);
    if (status == KINORA_OK) ++watch().tensors;
    return status;
  }
};

TrialChain::TrialChain(const core::PlainChainOptions& options, const std::vector<const kinora_link*>& links)
    : seed_(options.seed), chain_(core::plain_chain(options, links)) {
  context_.struct_size = sizeof context_;
  context_.self = this;
  context_.parameter = parameter;
  context_.value = Counted<&kinora_context::value>::call;
  context_.linear = Counted<&kinora_context::linear>::call;
  context_.attention = Counted<&kinora_context::attention>::call;
  context_.all_reduce = Counted<&kinora_context::all_reduce>::call;
  context_.block = block;
  context_.sequence = Counted<&kinora_context::sequence>::call;
  context_.gather = Counted<&kinora_context::gather>::call;
  context_.table = Counted<&kinora_context::table>::call;
  context_.reshard = Counted<&kinora_context::reshard>::call;
  context_.noise = Counted<&kinora_context::noise>::call;
  context_.get_interface = [](void* self, const char* id, uint32_t minor) {
    const auto& c = static_cast<TrialChain*>(self)->head();
    return c.get_interface(c.self, id, minor);
  };
}

int32_t TrialChain::parameter(void* self, const kinora_param_spec* spec, kinora_param* out) {
  auto& chain = *static_cast<TrialChain*>(self);
  const int32_t status = chain.head().parameter(chain.head().self, spec, out);
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
  const auto& c = static_cast<TrialChain*>(self)->head();
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

void TrialChain::begin(bool no_grad, int64_t frames, uint32_t branch) {
  kinora_pass pass{};
  pass.struct_size = sizeof pass;
  pass.no_grad = no_grad ? 1 : 0;
  pass.branch = branch;
  pass.seed = seed_;
  chain_->begin(pass, frames);
}

std::vector<TrialChain::Leaf> TrialChain::leaves() const {
  std::vector<Leaf> out;
  for (const auto& leaf : chain_->leaves()) out.push_back({leaf.name, counted(leaf.tensor), leaf.frozen});
  return out;
}

Tensor TrialChain::on_device(const Tensor& t) const { return counted(chain_->on_device(t.get())); }

}  // namespace kinora
