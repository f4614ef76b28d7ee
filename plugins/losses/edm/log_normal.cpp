#include "plugins/losses/edm/log_normal.hpp"

#include <cmath>

namespace kinora {

namespace {

void ascending(const char* low_name, double low, const char* high_name, double high) {
  if (low >= high)
    throw Error(KINORA_ERROR_INVALID, std::string(low_name) + " = " + detail::toml_float(low) +
                                          " must be below " + high_name + " = " + detail::toml_float(high));
}

}  // namespace

LogNormal::LogNormal(const LevelOptions& o) : o_(o) {
  ascending("sigma_min", o.sigma_min, "sigma_max", o.sigma_max);
  ascending("high_sigma_min", o.high_sigma_min, "high_sigma_max", o.high_sigma_max);
  // log(0) and log(inf) are the ends of the distribution.
  const auto share_below = [&](double sigma) {
    return normal_share_below((std::log(sigma / o.level_scale) - o.p_mean) / o.p_std);
  };
  if (o.limits == "truncate") kept_ = Share::between(share_below(o.sigma_min), share_below(o.sigma_max));
}

Tensor LogNormal::operator()(const Tensor& uniform) const {
  const Tensor u = uniform.to(KINORA_DTYPE_FLOAT64);
  const double rest = 1 - o_.high_sigma_share;
  Tensor sigma;
  if (rest > 0) {
    // A number of the high share would leave (0, 1) here; its result is not used.
    const Tensor z = op("aten::special_ndtri", "", {kept_.of(op("aten::clamp", "", {u / rest, 0.0, 1.0}))});
    sigma = exp(o_.p_mean + z * o_.p_std) * o_.level_scale;
    sigma = op("aten::clamp", "", {sigma, o_.sigma_min, o_.sigma_max});
  }
  if (o_.high_sigma_share <= 0) return sigma;
  const double low = std::log(o_.high_sigma_min), high = std::log(o_.high_sigma_max);
  const Tensor above = exp((u - rest) / o_.high_sigma_share * (high - low) + low);
  if (!sigma.defined()) return above;
  return op("aten::where", "self", {op("aten::ge", "Scalar", {u, rest}), above, sigma});
}

}  // namespace kinora
