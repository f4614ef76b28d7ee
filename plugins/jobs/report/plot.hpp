// A measured curve as a figure. The drawing is an SVG that stretches to whatever room there is; labels are
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
  bool smooth = true;      // points light, and a line through their local means
  bool from_zero = false;  // a schedule: its peak is what a reader asks for
};

// Values by x. Nothing is drawn for none.
void plot(Html& out, const std::map<double, double>& values, const PlotOptions& options);

}  // namespace kinora::core::report
