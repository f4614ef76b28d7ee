// Common parts of the tests of pipelines.
#pragma once
#include <string>
#include <vector>

#include "tests/support/equality.hpp"

namespace kinora::test {

// As in a job: a pipeline, followed by other strategies.
inline std::string pp(const std::string& schedule, const std::string& more = "",
                      const std::string& beside = "") {
  return "[{ use = 'pp', schedule = '" + schedule + "'" + (more.empty() ? "" : ", " + more) + " }" + beside +
         "]";
}

inline void all(int ranks, const std::vector<Trial>& trials) {
  on_ranks(
      ranks,
      [&](const Rank& me) {
        for (const auto& t : trials) equals_one_process(me, t);
      },
      120);
}

}  // namespace kinora::test
