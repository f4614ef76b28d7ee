// Maps values to positions along an axis, and chooses the round values of its ticks.
#pragma once
#include <string>
#include <vector>

namespace kinora::core::report {

struct Axis {
  struct Tick {
    double at = 0;  // share of the axis, 0..1
    std::string label;
  };
  double low = 0, high = 1;
  bool log = false;
  std::vector<Tick> ticks;

  // Share of the axis, clamped to 0..1.
  double at(double value) const;
};

enum class Scale {
  linear,
  from_zero,  // linear, including zero
  automatic,  // logarithmic if all values are positive and span a decade; else linear, from zero if that
              // costs little
};

// Values low..high with about `wanted` ticks. `rounded`: the ends move outwards, to ticks or a little, so
// that no value touches the frame.
Axis make_axis(double low, double high, Scale scale, int wanted, bool rounded);

}  // namespace kinora::core::report
