// score/frechet: the Frechet distance of two sets of feature vectors.
//
// Its state of D features a vector: two counts, then mean [D] and scatter [D, D] of `real`, then those of
// `made`; empty before the first vector.
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "kinora/aten.hpp"
#include "kinora/plugin.hpp"
#include "kinora/score.hpp"
#include "plugins/scores/frechet/statistics.hpp"

namespace kinora::frechet {
namespace {

using at::Tensor;

void append(std::vector<double>& to, const Tensor& t) {
  const Tensor dense = t.to(at::kCPU).contiguous();
  to.insert(to.end(), dense.data_ptr<double>(), dense.data_ptr<double>() + dense.numel());
}

bool is_count(double n) { return n >= 0 && n < 0x1p53 && n == std::floor(n); }

}  // namespace

class Frechet final : public Score<at::Tensor> {
 public:
  struct Options {};
  static void describe(Describe<Options>& d) {
    d.name("frechet").help("Frechet distance of two sets of feature vectors; FVD with those of I3D");
    d.input("real", "[N, D]", "float", "features of originals", {.optional = true});
    d.input("made", "[N, D]", "float", "features of what is compared with them", {.optional = true});
    d.output("frechet_distance", "[]", "float64", "squared; needs two vectors or more of both");
  }
  explicit Frechet(const Options&) {}

  void update(const Run&, const Named<at::Tensor>& in) override {
    const Tensor real = in.get("real"), made = in.get("made");
    int64_t size = size_;
    for (const auto* t : {&real, &made}) {
      if (!t->defined()) continue;
      if (t->is_meta())  // real_.add() or made_.add() alone would fail below
        throw Error(KINORA_ERROR_INVALID, "score/frechet: a tensor of the meta device has no features");
      if (t->dim() != 2 || t->size(1) == 0 || (size > 0 && t->size(1) != size))
        throw Error(KINORA_ERROR_INVALID,
                    c10::str("score/frechet: features must be [N, ",
                             size > 0 ? std::to_string(size) : std::string("D"), "], found ", t->sizes()));
      size = t->size(1);
    }
    if (size == 0) throw Error(KINORA_ERROR_INVALID, "score/frechet: neither 'real' nor 'made' was given");
    size_ = size;
    if (real.defined()) real_.add(real);
    if (made.defined()) made_.add(made);
  }

  std::vector<double> state() const override {
    if (size_ == 0) return {};
    std::vector<double> out{static_cast<double>(real_.count()), static_cast<double>(made_.count())};
    for (const auto* set : {&real_, &made_}) {
      append(out, set->count() ? set->mean() : at::zeros({size_}, at::kDouble));
      append(out, set->count() ? set->scatter() : at::zeros({size_, size_}, at::kDouble));
    }
    return out;
  }

  void merge(std::vector<double> state) override {
    if (state.empty()) return;
    // 2 (1 + D + D^2) numbers.
    const auto size = static_cast<int64_t>(std::sqrt(static_cast<double>(state.size()) / 2));
    if (state.size() != static_cast<size_t>(2 * (1 + size + size * size)) || !is_count(state[0]) ||
        !is_count(state[1]) || (size_ > 0 && size != size_))
      throw Error(KINORA_ERROR_INVALID, "score/frechet: a state of " + std::to_string(state.size()) +
                                            " numbers is not one of " +
                                            (size_ ? std::to_string(size_) : "D") + " features a vector");
    size_ = size;
    const Tensor all = at::tensor(state, at::kDouble);
    int64_t at = 2;
    for (auto* set : {&real_, &made_}) {
      const auto count = static_cast<int64_t>(state[set == &real_ ? 0 : 1]);
      const Tensor mean = all.narrow(0, at, size),
                   scatter = all.narrow(0, at + size, size * size).view({size, size});
      set->merge({count, mean, scatter});
      at += size + size * size;
    }
  }

  std::vector<double> compute() const override { return {frechet_distance(real_, made_)}; }

 private:
  int64_t size_ = 0;  // of a vector; 0: none was seen
  FeatureStatistics real_, made_;
};
KINORA_COMPONENT(Frechet)
KINORA_PLUGIN(Frechet)

}  // namespace kinora::frechet
