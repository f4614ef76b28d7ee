// The report: one HTML file that needs nothing else, no network and no script.
#pragma once
#include <string>

#include "core/report/record.hpp"
#include "core/report/stills.hpp"

namespace kinora::core::report {

// What the run amounts to, in a line of plain text: "1 film, 12 shots, ...".
std::string summary_line(const RunRecord& run);

// The page. `still` is asked for a picture of every shot that is shown.
std::string make_page(const RunRecord& run, StillSource still);

// The style sheet of the page.
const char* style_sheet();

}  // namespace kinora::core::report
