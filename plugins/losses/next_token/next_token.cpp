// Cross entropy of codes, for models that predict a discrete latent token by token. With p = softmax(logits),
// e = label_smoothing, V codes and c the correct one, the cost of a token is
//   -(1 - e) ln p_c - e / V sum_v ln p_v + z_loss (ln sum_v exp(logit_v))^2
// (smoothing: Szegedy et al. 2015, arXiv 1512.00567, section 7; z-loss: Chowdhery et al. 2022, arXiv
// 2204.02311, section 5).
#include "kinora/loss.hpp"
#include "kinora/plugin.hpp"

namespace kinora {

class NextToken final : public Loss<Tensor> {
 public:
  struct Options {
    double label_smoothing = 0, z_loss = 0;
    int64_t shift = 0;
  };
  static void describe(Describe<Options>& d) {
    d.name("next-token").help("cross entropy of codes, for autoregressive models");
    d.option("label_smoothing", &Options::label_smoothing)
        .range(0, 1)
        .help("share of the target distribution that is spread over all codes");
    d.option("z_loss", &Options::z_loss)
        .at_least(0)
        .help("weight of the squared logarithm of the softmax's sum; Cosmos and PaLM 1e-4; 0: none");
    d.option("shift", &Options::shift)
        .range(0, 1000000)
        .help(
            "distance between logits and their code: logits at n predict code n + shift; 0 for a model that "
            "shifts its input itself, else 1");
    d.input("output", "[B, N, V]", "float", "logits");
    d.input("codes", "[B, ...]", "int", "N codes in [0, V) per sample, in the tokens' order");
    d.input("mask", "[B, ...]", "bool", "codes that count; all when absent");
    d.output("loss", "[B]", "float", "mean over a sample's codes that count; 0 if a sample has none");
    d.output("accuracy", "[B]", "float", "share of them whose logit is the largest");
    d.output("nll", "[B]", "float",
             "mean of -ln p_c, neither smoothed nor with z_loss: exp of it is the perplexity");
  }
  explicit NextToken(const Options& o) : o_(o) {}

  Tensor noisy(const Tensor&, const Tensor&, const Tensor&) override { throw no_noise(); }
  Input input(const Tensor&, const Tensor&) override { throw no_noise(); }
  Tensor estimate(const Tensor&, const Tensor&, const Tensor&) override { throw no_noise(); }

  std::vector<Tensor> evaluate(const Named<Tensor>& in) override {
    const Tensor all = wide(in.has("prediction") ? in["prediction"] : in["output"]);
    const int64_t kept = all.dim() == 3 ? all.size(1) - o_.shift : 0;
    const Tensor codes = tokens(in["codes"], all, "codes").narrow(1, o_.shift, kept).to(KINORA_DTYPE_INT64);
    const Tensor logits_BNV = all.narrow(1, 0, kept);
    const Tensor sum_BN = op("aten::logsumexp", "", {logits_BNV, std::vector<int64_t>{-1}});
    const Tensor right_BN = op("aten::gather", "", {logits_BNV, -1, op("aten::unsqueeze", "", {codes, -1})})
                                .reshape(codes.sizes());
    const Tensor nll_BN = sum_BN - right_BN;
    Tensor cost_BN = nll_BN;
    if (o_.label_smoothing > 0)
      cost_BN = nll_BN * (1 - o_.label_smoothing) + (sum_BN - logits_BNV.mean({-1})) * o_.label_smoothing;
    if (o_.z_loss > 0) cost_BN = cost_BN + square(sum_BN) * o_.z_loss;
    const Tensor hit_BN = op("aten::eq", "Tensor", {op("aten::argmax", "", {logits_BNV, -1}), codes});
    const Tensor counts = in.has("mask") ? as(tokens(in["mask"], all, "mask").narrow(1, o_.shift, kept), all)
                                         : full_like(nll_BN, 1).detach();
    return {mean(cost_BN, counts), mean(as(hit_BN, all), counts), mean(nll_BN, counts)};
  }

 private:
  static Error no_noise() {
    return Error(KINORA_ERROR_UNSUPPORTED,
                 "next-token works without noise; this job needs a loss that has levels");
  }

  // t [B, ...] as [B, N], N the tokens of logits [B, N, V].
  Tensor tokens(const Tensor& t, const Tensor& logits, const char* name) const {
    if (logits.dim() != 3)
      throw Error(KINORA_ERROR_INVALID,
                  "output must be logits [B, N, V]; it has " + std::to_string(logits.dim()) + " dimensions");
    const int64_t B = logits.size(0), N = logits.size(1);
    if (t.dim() < 2 || t.size(0) != B || t.numel() != B * N)
      throw Error(KINORA_ERROR_INVALID, std::string(name) + " holds " + std::to_string(t.numel()) +
                                            " numbers; the logits are of " + std::to_string(B) +
                                            " samples with " + std::to_string(N) + " tokens each");
    if (o_.shift >= N)
      throw Error(KINORA_ERROR_INVALID,
                  "shift = " + std::to_string(o_.shift) + " leaves none of " + std::to_string(N) + " tokens");
    return t.reshape({B, N});
  }

  static Tensor mean(const Tensor& x_BN, const Tensor& counts_BN) {
    const auto sum = [](const Tensor& t) {
      return op("aten::sum", "dim_IntList", {t, std::vector<int64_t>{1}});
    };
    return sum(x_BN * counts_BN) / op("aten::clamp_min", "", {sum(counts_BN), 1.0});
  }

  Options o_;
};
KINORA_COMPONENT(NextToken)

KINORA_PLUGIN(NextToken)

}  // namespace kinora
