#include "tests/support/equality.hpp"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "core/torch/context/noise.hpp"
#include "core/torch/context/parallelism.hpp"
#include "core/torch/training/optimizer.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::test {
namespace {

using at::Tensor;
using core::NamedTensors;

class Comparison {
 public:
  Comparison(const Rank& me, const Trial& t, double bound)
      : me_(me),
        t_(t),
        bound_(bound > 0               ? bound
               : t.precision == "fp64" ? 1e-10
                                       : 1e-5),
        run_({{"dit",
               "precision = '" + t.precision + "'\nparallel = " + t.parallel + "\nmodel = " + t.model}}),
        context_(run_.context("dit", false)),
        parallel_(context_),
        model_(context_.open_slot("model")),
        mine_(make(parallel_.links())),
        whole_(make({})) {
    fill();
  }

  void run() {
    holds_every_number_once();
    // AdamW divides by the gradient's size: in float32 a small one's rounding would be all that is seen.
    const double eps = t_.precision == "fp64" ? 1e-4 : 1e-2;
    core::AdamW of_mine(mine_->chain().parameters(), mine_->chain().leaves(), {.eps = eps}),
        of_whole(whole_->chain().parameters(), whole_->chain().leaves(), {.eps = eps});
    for (step_ = 0; step_ < t_.steps; ++step_) {
      const double loss = one_process(), together = all_processes();
      near(together / loss - 1, 0, "loss");
      gradients();
      const double norm = core::gradient_norm(whole_->chain().leaves()), shared = norm_of_all();
      near(shared / norm - 1, 0, "norm of the gradient");
      of_whole.step(0.01, core::clip_factor(norm, norm / 2));
      of_mine.step(0.01, core::clip_factor(shared, shared / 2));
      each_leaf([](const core::Leaf& l) { return l.tensor.detach(); }, "after the step");
      of_whole.zero_grad();
      of_mine.zero_grad();
    }
  }

 private:
  std::unique_ptr<core::Network> make(std::vector<const kinora_link*> links) {
    if (t_.more) more_.push_back(t_.more());
    if (t_.more) links.push_back(more_.back()->get());
    core::ChainOptions o;
    o.seed = 3;
    o.dtype = parallel_.parameter_dtype();
    o.frames = t_.rule;
    o.lora = t_.lora;
    return std::make_unique<core::Network>(model_, context_.spec().component("model")->options, o,
                                           std::move(links));
  }

  // Numbers that leave no layer at zero, the same for both.
  void fill() {
    at::manual_seed(11);
    for (auto& leaf : whole_->chain().leaves()) {
      Tensor t = leaf.tensor.detach();
      const double deviation = t.dim() > 1 ? 1 / std::sqrt(static_cast<double>(t[0].numel())) : 0.2;
      const double mean = t.dim() == 1 && !leaf.name.ends_with("bias") ? 1 : 0;
      t.copy_(at::randn(t.sizes(), at::kFloat) * deviation + mean);
    }
    core::load_values(mine_->chain().parameters(), mine_->chain().leaves(),
                      core::assemble(whole_->chain().parameters(), whole_->chain().leaves()));
  }

  void holds_every_number_once() {
    double held = 0;
    for (const auto& leaf : mine_->chain().leaves())
      for (const auto& p : leaf.pieces)
        held += static_cast<double>(p.count) *
                parallel_.share(mine_->chain().parameter(p.param), leaf.reduced_by_link);
    EXPECT_NEAR(parallel_.sum_of_world(held), static_cast<double>(whole_->numel()), 1e-6);
  }

  int64_t samples() const { return t_.each * t_.micro * parallel_.data_size(); }

  NamedTensors batch(int64_t first, int64_t count) const {
    const int64_t from = 100 * step_ + first;
    const auto like = [&](at::IntArrayRef of_one) {
      std::vector<int64_t> shape{count};
      shape.insert(shape.end(), of_one.begin(), of_one.end());
      return at::empty(shape, at::TensorOptions().dtype(parallel_.dtype()));
    };
    NamedTensors out;
    if (t_.packed.empty()) {
      out["latent"] = core::sample_noise(like({2, t_.frames, t_.rows, t_.cols}), 5, from, "latent");
    } else {
      std::vector<int64_t> all;
      auto videos = t_.packed;  // in another order in each row
      std::rotate(videos.begin(), videos.begin() + first % static_cast<int64_t>(videos.size()), videos.end());
      for (const auto& size : videos) all.insert(all.end(), size.begin(), size.end());
      const Tensor sizes = at::tensor(all, at::kLong).view({-1, 3});
      out["latent"] = core::sample_noise(like({2, sizes.prod(1).sum().item<int64_t>()}), 5, from, "latent");
      out["sizes"] = sizes;
      count = sizes.size(0);  // of what each video has
    }
    out["timestep"] = core::sample_uniform({count}, 5, from, "time").to(parallel_.dtype());
    if (t_.text > 0) {
      out["text"] = core::sample_noise(like({t_.text, 12}), 5, from, "text");
      out["text_mask"] =
          at::arange(t_.text).unsqueeze(0) <= (at::arange(from, from + count) % t_.text).unsqueeze(1);
    }
    for (auto& [name, tensor] : out)
      if (tensor.is_floating_point()) tensor.set_requires_grad(true);
    return out;
  }

  Tensor loss_of(const Tensor& out, int64_t first) const {
    const Tensor weight = core::sample_noise(out.detach(), 5, 100 * step_ + first, "weight");
    return (out * weight).square().sum() / static_cast<double>(samples());
  }

  kinora_pass pass_of(int64_t first) const {
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    pass.first_sample = first;
    pass.seed = 3;
    return pass;
  }

  // All samples at once; of packed rows one after the other, for they differ in shape.
  double one_process() {
    double loss = 0;
    const int64_t rows = t_.packed.empty() ? 1 : samples(), each = samples() / rows;
    wholes_.clear();
    for (int64_t first = 0; first < samples(); first += each) {
      whole_->chain().begin(pass_of(first));
      Whole one{batch(first, each), {}};
      one.output = whole_->forward(one.inputs).at(0);
      const Tensor part = loss_of(one.output, first);
      part.backward();
      loss += part.item<double>();
      wholes_.push_back(std::move(one));
    }
    return loss;
  }
  // What `of` has of `count` rows for the samples from `first` on.
  template <class Of>
  Tensor part_of_whole(int64_t first, int64_t count, Of of) const {
    return t_.packed.empty() ? of(wholes_[0]).narrow(0, first, count)
                             : of(wholes_.at(static_cast<size_t>(first)));
  }

  double all_processes() {
    std::map<int64_t, Tensor> losses;
    std::map<int64_t, NamedTensors> given;
    double loss = 0;
    const auto first_of = [&](const kinora_pass& p) {
      return (p.micro * parallel_.data_size() + parallel_.data_rank()) * t_.each;
    };
    const auto forward = [&](kinora_pass pass) {
      const int64_t first = first_of(pass);
      kinora_pass now = pass_of(first);
      now.stage = pass.stage;
      now.micro = pass.micro;
      mine_->chain().begin(now);
      auto& in = given[pass.micro];
      if (in.empty()) in = batch(first, t_.each);
      try {
        const Tensor out = mine_->forward(in).at(0);
        same(out, part_of_whole(first, t_.each, [](const Whole& w) { return w.output; }), "output");
        losses[pass.micro] = loss_of(out, first);
        return true;
      } catch (const Stop&) {
        return false;
      }
    };
    const auto backward = [&](const kinora_pass& pass) {
      const Tensor one = losses.extract(pass.micro).mapped();
      one.backward();
      loss += one.item<double>();
    };
    parallel_.step({t_.micro, forward, backward}, nullptr);
    EXPECT_TRUE(losses.empty()) << "a microbatch had no backward";
    mine_->chain().reduce();
    parallel_.sum_gradients(mine_->chain().parameters(), mine_->chain().leaves());
    inputs_equal(given, first_of);
    return parallel_.sum({loss}).at(0);
  }

  template <class First>
  void inputs_equal(const std::map<int64_t, NamedTensors>& given, First first_of) {
    const kinora_group& model = parallel_.group("pp+cp+tp");
    for (const auto& [micro, in] : given) {
      kinora_pass pass{};
      pass.micro = micro;
      for (const auto& [name, tensor] : in) {
        if (!tensor.requires_grad()) continue;
        const Tensor part = tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor);
        same(Group<Tensor>(&model).sum(part),
             part_of_whole(first_of(pass), tensor.size(0),
                           [&](const Whole& w) { return w.inputs.at(name).grad(); }),
             "gradient of " + name);
      }
    }
  }

  double norm_of_all() const {
    return core::gradient_norm(
        mine_->chain().leaves(),
        [&](const core::Leaf& leaf, const core::Piece& piece) {
          return parallel_.share(mine_->chain().parameter(piece.param), leaf.reduced_by_link);
        },
        [&](double sum) { return parallel_.sum_of_world(sum); });
  }

  void gradients() {
    each_leaf(
        [](const core::Leaf& l) {
          return l.tensor.grad().defined() ? l.tensor.grad() : at::zeros_like(l.tensor);
        },
        "gradient");
  }

  // What `of` gives of each leaf, against the same numbers of one process.
  template <class Of>
  void each_leaf(Of of, const std::string& what) {
    std::map<std::string, Tensor> want;
    for (const auto& leaf : whole_->chain().leaves()) want[leaf.name] = of(leaf).reshape({-1});
    for (const auto& leaf : mine_->chain().leaves()) {
      const Tensor have = of(leaf).reshape({-1});
      for (const auto& piece : leaf.pieces) {
        const auto& p = mine_->chain().parameter(piece.param);
        const Tensor all = want.at(p.name);
        const double scale = std::max(all.abs().max().template item<double>(), 1e-3);
        for (const auto& r : core::runs(p, piece.first, piece.count))
          near((have.narrow(0, piece.offset + r.local - piece.first, r.count) -
                all.narrow(0, r.global, r.count))
                       .abs()
                       .max()
                       .template item<double>() /
                   scale,
               0, p.name + ", " + what);
      }
    }
  }

  void same(const Tensor& have, const Tensor& want, const std::string& what) {
    ASSERT_EQ(have.sizes(), want.sizes()) << what;
    near(((have - want).abs().max() / want.abs().max()).item<double>(), 0, what);
  }
  void near(double have, double want, const std::string& what) {
    EXPECT_NEAR(have, want, bound_) << what << ", step " << step_ << ", rank " << me_.rank << " of "
                                    << me_.size << ", " << t_.parallel;
  }

  Rank me_;
  Trial t_;
  double bound_;
  ScratchRun run_;
  core::JobContext context_;
  core::Parallelism parallel_;
  core::Component model_;
  std::vector<std::unique_ptr<Link<Tensor>>> more_;
  std::unique_ptr<core::Network> mine_, whole_;
  int64_t step_ = 0;
  struct Whole {
    NamedTensors inputs;
    Tensor output;
  };
  std::vector<Whole> wholes_;
};

}  // namespace

void equals_one_process(const Rank& me, const Trial& trial, double bound) {
  me.launched();
  Comparison(me, trial, bound).run();
}

}  // namespace kinora::test
