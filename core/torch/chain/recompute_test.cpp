// Recomputation of a block in the backward, as a link that uses the ABI alone. The pass is the chain's, so
// the noise equals the first run's even when other microbatches ran in between.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/plugin/host.hpp"
#include "core/torch/chain/chain.hpp"
#include "core/torch/tensors/tensors_api.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"

namespace kinora::core {
namespace {

using Tensors = std::vector<at::Tensor>;

class Again final : public Link<at::Tensor> {
 public:
  explicit Again(bool puts_pass_back) : Link(KINORA_LEVEL_RECOMPUTE), puts_pass_back_(puts_pass_back) {
    skip_inherited<Again>();
  }

  // The parameters of the block are inputs of the node, so that one exists even if no other input needs a
  // gradient.
  Tensors block(const kinora_block& b, const Tensors& in) override {
    b.retain(b.user);
    const auto weight = next.value(1);
    auto* s = new State{this, b, in, weight, pass()};
    const kinora_function f{
        sizeof f,   static_cast<uint32_t>(in.size()) + 1, b.n_out, 0, s, State::forward, State::backward,
        State::drop};
    std::vector<kinora_tensor> handles, out(b.n_out, nullptr);
    for (const auto& t : in) handles.push_back(handle(t));
    handles.push_back(handle(weight));
    check_or_stop(tensors_api_table()->autograd_apply(&f, handles.data(), out.data()));
    Tensors made;
    for (auto* h : out) made.push_back(adopt<at::Tensor>(h));
    return made;
  }

 private:
  struct State {
    Again* link;
    kinora_block b;
    Tensors in;
    at::Tensor weight;
    kinora_pass pass;

    static int32_t forward(void* p, const kinora_tensor*, kinora_tensor* out) {
      return guard([&] {
        auto* s = static_cast<State*>(p);
        const auto y = s->link->next.block(s->b, s->in);
        for (size_t i = 0; i < y.size(); ++i) out[i] = give(y[i]);
      });
    }
    static int32_t backward(void* p, const kinora_tensor* grads, kinora_tensor* out) {
      return guard([&] {
        auto* s = static_cast<State*>(p);
        const GradMode on(true);
        const auto before = s->link->pass();
        if (s->link->puts_pass_back_) s->link->set_pass(s->pass);
        Tensors fresh;
        for (const auto& t : s->in) fresh.push_back(t.detach().set_requires_grad(t.requires_grad()));
        const auto y = s->link->next.block(s->b, fresh);
        s->link->set_pass(before);
        Tensors want;
        for (const auto& t : fresh)
          if (t.requires_grad()) want.push_back(t);
        want.push_back(s->weight);
        std::vector<kinora_tensor> ys, inputs, made(want.size(), nullptr);
        for (const auto& t : y) ys.push_back(handle(t));
        for (const auto& t : want) inputs.push_back(handle(t));
        check(tensors_api_table()->grad(ys.data(), grads, ys.size(), inputs.data(), inputs.size(),
                                        made.data()));
        size_t k = 0;
        for (size_t i = 0; i < fresh.size(); ++i) out[i] = fresh[i].requires_grad() ? made[k++] : nullptr;
        out[fresh.size()] = made[k];
      });
    }
    static void drop(void* p) {
      auto* s = static_cast<State*>(p);
      s->b.release(s->b.user);
      delete s;
    }
  };
  bool puts_pass_back_;
};

// Gradients of two microbatches whose backwards follow both forwards.
Tensors gradients(const kinora_link* link, const at::Tensor& x) {
  ChainOptions o;
  o.dtype = at::kDouble;
  Chain chain(o, link ? std::vector{link} : std::vector<const kinora_link*>{});
  const kinora::Context<at::Tensor> c(chain.head());
  const auto w = c.parameter({"w", {4, 4}, Init::normal(1), Role::column, 0});
  chain.ready();
  Tensors losses;
  for (int64_t micro = 0; micro < 2; ++micro) {
    chain.begin({sizeof(kinora_pass), 0, 0, 0, micro, 0, micro, 3});
    kinora_seq seq = 0;
    const auto t = c.sequence(x.narrow(0, micro, 1), 3, 1, 2, seq);
    const auto y = c.block(0, {t}, {}, 1, [=](const Tensors& in) {
      return Tensors{(c.linear(in[0], w, 0, seq) * c.noise(in[0], seq, "n")).tanh()};
    });
    losses.push_back(y[0].square().sum());
  }
  losses[0].backward();
  losses[1].backward();
  return {c.value(w).grad(), x.grad()};
}

TEST(Recompute, RunsABlockAgainWithTheNoiseOfItsFirstRun) {
  serve_tensors();
  const auto start = at::randn({2, 6, 4}, at::kDouble);
  const auto fresh = [&] { return start.clone().set_requires_grad(true); };
  Again right(true), forgets(false);
  const auto want = gradients(nullptr, fresh()), got = gradients(right.get(), fresh()),
             wrong = gradients(forgets.get(), fresh());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::allclose(got[i], want[i], 1e-13, 1e-14));
    EXPECT_FALSE(at::allclose(wrong[i], want[i], 1e-3, 1e-3)) << "without restoring the pass it differs";
  }
}

TEST(Recompute, ReachesParametersWhenNoInputNeedsAGradient) {
  serve_tensors();
  const auto x = at::randn({2, 6, 4}, at::kDouble);
  Again link(true);
  EXPECT_TRUE(at::allclose(gradients(link.get(), x)[0], gradients(nullptr, x)[0], 1e-13, 1e-14));
}

}  // namespace
}  // namespace kinora::core
