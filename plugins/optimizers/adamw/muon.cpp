// optimizer/muon: momentum whose matrices are made orthogonal (Jordan et al. 2024,
// https://kellerjordan.github.io/posts/muon), for the matrices within blocks; AdamW for everything else.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/torch/parallel.hpp"
#include "kinora/plugin.hpp"
#include "plugins/optimizers/adamw/adamw_step.hpp"

namespace kinora::adamw {
namespace {

using at::Tensor;

// Newton and Schulz's iteration with Jordan's coefficients. x [m, n] -> a matrix with the same singular
// vectors, whose singular values are between about 0.7 and 1.2.
Tensor orthogonal(const Tensor& x, int64_t steps) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = x.size(0) > x.size(1);
  Tensor y = tall ? x.t() : x;
  y = y / at::linalg_vector_norm(y).clamp_min(1e-7);
  for (int64_t i = 0; i < steps; ++i) {
    const Tensor square = at::mm(y, y.t());
    y = a * y + at::mm(b * square + c * at::mm(square, square), y);
  }
  return tall ? y.t() : y;
}

// m <- m + (1 - beta) (g - m), then g <- the direction: m, or with Nesterov's look ahead g + beta (m - g).
template <class T>
void momentum(const Update<Tensor>& u, double beta, bool nesterov) {
  const T share = static_cast<T>(1 - beta), ahead = static_cast<T>(beta),
          factor = static_cast<T>(u.gradient_factor);
  T *g = u.gradient.data_ptr<T>(), *m = u.states.at(0).data_ptr<T>();
  in_parallel(u.gradient.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T now = g[i] * factor;
      m[i] = m[i] + share * (now - m[i]);
      g[i] = nesterov ? now + ahead * (m[i] - now) : m[i];
    }
  });
}

}  // namespace

class Muon final : public Optimizer<Tensor> {
 public:
  struct Options : Constants {
    double momentum = 0.95;
    bool nesterov = true;
    int64_t iterations = 5;
    std::string scale = "rms";
  };
  static void describe(Describe<Options>& d) {
    d.name("muon").help(
        "Muon: orthogonalised momentum for the matrices of attention and MLPs, AdamW for all other "
        "parameters");
    d.option("momentum", &Options::momentum).at_least(0).below(1).help("decay of the matrices' momentum");
    d.option("nesterov", &Options::nesterov).help("look one step ahead along the momentum");
    d.option("iterations", &Options::iterations)
        .range(1, 100)
        .help("Newton-Schulz iterations that make a matrix orthogonal");
    d.option("scale", &Options::scale)
        .choices({"rms", "original"})
        .help(
            "factor of a matrix [m, n]: rms: 0.2 sqrt(max(m, n)), the size of AdamW's changes, so that both "
            "share a learning rate (Moonlight, arXiv 2502.16982); original: sqrt(max(1, m / n))");
    Constants::describe(d);
    d.output("first", "[n]", "float", "momentum of a matrix; AdamW's first moment of other parameters");
    d.output("second", "[n]", "float", "AdamW's second moment; matrices have none");
  }
  explicit Muon(const Options& o) : options_(o) {}

  Plan plan(const kinora_param_spec& spec) override {
    return is_matrix(spec) ? Plan{.states = 1, .whole = true} : Plan{.states = 2};
  }

  void update(const Update<Tensor>& u) override {
    if (u.states.size() == 2) return step(u, options_);
    const at::NoGradGuard off;
    if (!is_plain(u.gradient)) return elsewhere(u);
    u.gradient.scalar_type() == at::kFloat
        ? kinora::adamw::momentum<float>(u, options_.momentum, options_.nesterov)
        : kinora::adamw::momentum<double>(u, options_.momentum, options_.nesterov);
  }

  // Each fused part (q, k and v of one projection) is a matrix of its own.
  Tensor direction(const kinora_param_spec& spec, const Tensor& whole) override {
    const at::NoGradGuard off;
    const int64_t dim = spec.role == KINORA_ROLE_ROW ? 1 : 0;
    std::vector<int64_t> sizes;
    for (uint32_t i = 0; i < spec.n_parts; ++i)
      sizes.push_back(spec.parts ? spec.parts[i] : whole.size(dim) / spec.n_parts);
    if (sizes.empty()) sizes.push_back(whole.size(dim));
    std::vector<Tensor> changes;
    for (const Tensor& part : whole.split_with_sizes(sizes, dim)) {
      const Tensor flat = part.flatten(1);
      changes.push_back((orthogonal(flat, options_.iterations) * scale(flat)).reshape(part.sizes()));
    }
    return at::cat(changes, dim).contiguous();
  }

 private:
  // The roles of matrices that are multiplied with tokens inside a block: no embedding, head, norm or table
  // has them.
  static bool is_matrix(const kinora_param_spec& spec) {
    const bool inside = spec.role == KINORA_ROLE_COLUMN || spec.role == KINORA_ROLE_ROW;
    return inside && spec.ndim > 1 && spec.shape[0] > 1 && spec.shape[1] > 1;
  }

  double scale(const Tensor& x) const {
    const auto rows = static_cast<double>(x.size(0)), columns = static_cast<double>(x.size(1));
    return options_.scale == "rms" ? 0.2 * std::sqrt(std::max(rows, columns))
                                   : std::sqrt(std::max(1.0, rows / columns));
  }

  void elsewhere(const Update<Tensor>& u) const {
    Tensor g = u.gradient, m = u.states.at(0);
    g.mul_(u.gradient_factor);
    m.lerp_(g.to(m.scalar_type()), 1 - options_.momentum);
    options_.nesterov ? g.lerp_(m.to(g.scalar_type()), options_.momentum) : g.copy_(m);
  }

  Options options_;
};

KINORA_COMPONENT(Muon)
KINORA_PLUGIN(AdamW, Muon)

}  // namespace kinora::adamw
