#include "plugins/jobs/report/axis.hpp"

#include <algorithm>
#include <cmath>

#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

// The smallest of 1, 2, 5 times a power of ten that is not below `least`.
double nice_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double m : {1.0, 2.0, 5.0})
    if (m * power >= least * (1 - 1e-9)) return m * power;
  return 10 * power;
}

void linear_ticks(Axis& axis, int wanted, bool rounded) {
  const double step = nice_step((axis.high - axis.low) / std::max(1, wanted));
  if (rounded) {
    axis.low = std::floor(axis.low / step + 1e-9) * step;
    axis.high = std::ceil(axis.high / step - 1e-9) * step;
  }
  const auto first = static_cast<int64_t>(std::ceil(axis.low / step - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(axis.high / step + 1e-9));
  // As many digits as neighbouring ticks need to differ.
  const double widest = std::max(std::abs(axis.low), std::abs(axis.high));
  const int digits = std::clamp(static_cast<int>(std::ceil(std::log10(widest / step) - 1e-9)) + 1, 1, 12);
  for (int64_t i = first; i <= last; ++i)
    axis.ticks.push_back(
        {axis.at(static_cast<double>(i) * step), number(static_cast<double>(i) * step, digits)});
}

// The values m * 10^e, with e a multiple of `every`, that are on the axis.
std::vector<double> log_values(const Axis& axis, const std::vector<double>& mantissas, int every) {
  std::vector<double> out;
  const int last = static_cast<int>(std::ceil(std::log10(axis.high)));
  for (int e = static_cast<int>(std::floor(std::log10(axis.low))); e <= last; ++e)
    for (const double m : mantissas)
      if (const double v = m * std::pow(10.0, e); e % every == 0 && v >= axis.low && v <= axis.high)
        out.push_back(v);
  return out;
}

void log_ticks(Axis& axis, int wanted, bool rounded) {
  if (rounded) {
    const double room = std::pow(axis.high / axis.low, 0.04);
    axis.low /= room;
    axis.high *= room;
  }
  const double decades = std::log10(axis.high / axis.low);
  const int every = std::max(1, static_cast<int>(std::ceil(decades / std::max(1, wanted))));
  auto values = log_values(axis, {1, 2, 5}, 1);
  const auto powers = log_values(axis, {1}, every);
  if (values.size() > static_cast<size_t>(wanted) + 1 && powers.size() > 1) values = powers;
  const bool extreme = values == powers && (axis.low < 1e-3 || axis.high > 1e5);
  for (const double v : values) {
    const auto exponent = static_cast<int>(std::lround(std::log10(v)));
    axis.ticks.push_back({axis.at(v), extreme && exponent != 0 ? power_of_ten(exponent) : number(v)});
  }
}

}  // namespace

double Axis::at(double value) const {
  const double share =
      log ? std::log(std::max(value, low) / low) / std::log(high / low) : (value - low) / (high - low);
  return std::clamp(share, 0.0, 1.0);
}

Axis make_axis(double low, double high, Scale scale, int wanted, bool rounded) {
  Axis axis;
  axis.log = scale == Scale::automatic && low > 1e-300 && high >= 10 * low;
  const bool zero = scale == Scale::from_zero || (scale == Scale::automatic && low < 0.5 * high);
  if (!axis.log && low > 0 && zero) low = 0;
  if (!axis.log && high < 0 && scale == Scale::from_zero) high = 0;
  if (!(high - low > 1e-9 * std::max(std::abs(low), std::abs(high)))) {  // a single value is drawn in the middle
    const double room = low == 0 ? 1 : std::abs(low) * 0.5;
    low -= room;
    high += room;
  }
  axis.low = low;
  axis.high = high;
  if (axis.log) {
    log_ticks(axis, wanted, rounded);
  } else {
    linear_ticks(axis, wanted, rounded);
  }
  return axis;
}

}  // namespace kinora::core::report
