// Draws a measured curve as a figure. The drawing is an SVG that stretches to the available space; labels are
// HTML laid over it, so that letters keep their size at every width. Pointing at the curve shows the values
// there, without a script.
#pragma once
#include <map>
#include <string>

#include "plugins/jobs/report/html.hpp"

namespace kinora::core::report {

struct PlotOptions {
  std::string title;  // "Loss"
  std::string x = "step";
  bool small = false;      // one of several in a row
  bool smooth = true;      // light points, and a line through their local means
  bool from_zero = false;  // for a schedule, whose peak the reader looks for
};

// Plots values by x. Draws nothing if there are none.
void plot(Html& out, const std::map<double, double>& values, const PlotOptions& options);

}  // namespace kinora::core::report
