// stage/shots: finds shots with any set of detectors in one decode.
#include "shots/detector_set.hpp"
#include "shots/shots_options.hpp"

namespace kinora::video {

class Shots final : public ShotsStage {
 public:
  struct Options : ShotsOptions, DetectorSet {};

  static void describe(Describe<Options>& d) {
    d.name("shots").help(
        "Finds cuts by several detectors in one decode; each gives the same cuts as its own stage, "
        "shots.NAME");
    describe_detectors(d, "min_length");
    describe_shots(d);
  }
  explicit Shots(const Options& o) : ShotsStage(o, plan_of(o)) {}
};

}  // namespace kinora::video

using kinora::video::Shots;
KINORA_COMPONENT(Shots)
