#include "apps/validate/trial_link.hpp"

#include "apps/validate/trial_call.hpp"
#include "kinora/context.hpp"

namespace kinora {

TrialLink::TrialLink(const kinora_link* of) : CountedContext(of->context, -1), of_(detail::whole(of)) {
  link_.struct_size = sizeof link_;
  link_.level = of_.level;
  link_.context = context();
  link_.bind = [](void* self, const kinora_chain* chain) { return from(self).bind(chain); };
  link_.ready = [](void* self) { return from(self).call(from(self).of_.ready); };
  if (of_.begin)
    link_.begin = [](void* self, const kinora_pass* pass) {
      return from(self).of_.begin(from(self).of_.context->self, pass);
    };
  link_.reduce = [](void* self) { return from(self).call(from(self).of_.reduce); };
  link_.declared = [](void* self) { return from(self).call(from(self).of_.declared); };
  if (of_.piece)
    link_.piece = [](void* self, int64_t i, kinora_param* param, int64_t* first, int64_t* count,
                     kinora_tensor* leaf, int64_t* offset) {
      const int32_t status = from(self).call(from(self).of_.piece, i, param, first, count, leaf, offset);
      if (status == KINORA_OK && *leaf) --watch().tensors;
      return status;
    };
}

int32_t TrialLink::bind(const kinora_chain* chain) {
  outer_ = chain;
  next_.emplace(chain->next, 1);
  head_.emplace(chain->head, 1);
  chain_ = *chain;
  chain_.self = static_cast<CountedContext*>(this);
  chain_.next = next_->context();
  chain_.head = head_->context();
  chain_.get_pass = [](void* self, kinora_pass* out) {
    return from(self).outer_->get_pass(from(self).outer_->self, out);
  };
  chain_.set_pass = [](void* self, const kinora_pass* pass) {
    return from(self).outer_->set_pass(from(self).outer_->self, pass);
  };
  chain_.visible = [](void* self, kinora_tensor q, kinora_tensor k, uint32_t over, kinora_tensor* out) {
    const int32_t status = from(self).outer_->visible(from(self).outer_->self, q, k, over, out);
    if (status == KINORA_OK) ++watch().tensors;
    return status;
  };
  chain_.leaf = [](void* self, int64_t block, int64_t i, kinora_tensor* out) {
    const int32_t status = from(self).outer_->leaf(from(self).outer_->self, block, i, out);
    if (status == KINORA_OK) ++watch().tensors;
    return status;
  };
  chain_.skip_block = [](void* self, int64_t block) {
    return from(self).outer_->skip_block(from(self).outer_->self, block);
  };
  chain_.holds_block = [](void* self, int64_t block) {
    return from(self).outer_->holds_block(from(self).outer_->self, block);
  };
  chain_.get_interface = [](void* self, const char* id, uint32_t minor) {
    return from(self).outer_->get_interface(from(self).outer_->self, id, minor);
  };
  return call(of_.bind, &chain_);
}

void require_needs_refused(const kinora_link* link, const Tensor& x) {
  const kinora_link all = detail::whole(link);
  const kinora_context c = detail::whole(all.context);
  kinora_tensor out = nullptr;
  const auto refused = [](const std::string& function, auto call) {
    require_refused(call, function + " of its link with an unknown bit of `needs`");
  };
  if (c.parameter) {
    const int64_t size = 4;
    const kinora_param_spec spec{
        .struct_size = sizeof spec, .name = "unknown", .shape = &size, .ndim = 1, .needs = kUnknownNeed};
    kinora_param param = 0;
    refused("parameter()", [&] { return c.parameter(c.self, &spec, &param); });
  }
  if (c.attention) {
    const kinora_attention how{
        .struct_size = sizeof how, .name = "unknown", .scale = 1, .needs = kUnknownNeed};
    refused("attention()", [&] { return c.attention(c.self, x.get(), x.get(), x.get(), &how, &out); });
  }
  if (c.sequence) {
    const kinora_seq_spec spec{
        .struct_size = sizeof spec, .needs = kUnknownNeed, .frames = 1, .rows = 1, .cols = x.size(1)};
    kinora_seq seq = 0;
    refused("sequence()", [&] { return c.sequence(c.self, x.get(), &spec, &seq, &out); });
  }
  if (all.begin) {
    const kinora_pass pass{.struct_size = sizeof pass, .no_grad = 1, .needs = kUnknownNeed};
    refused("begin()", [&] { return all.begin(c.self, &pass); });
  }
}

}  // namespace kinora
