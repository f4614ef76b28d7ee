// The stages of a curate job at work on some of its inputs: all of them, or a part that several processes share.
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "core/run/job.hpp"
#include "plugins/jobs/curate/curate_options.hpp"
#include "plugins/jobs/curate/curate_results.hpp"
#include "plugins/jobs/curation/input_rows.hpp"
#include "plugins/jobs/curation/record.hpp"
#include "plugins/jobs/pipeline/pipeline.hpp"

namespace kinora::core {

// Holds the folder of answers for stages that may query servers; its destructor removes the folder if it is
// empty.
class Answers {
 public:
  explicit Answers(const JobContext& context);
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers();
  // Not called for a failed run, which reuses the answers when it resumes.
  void set_aside() const;

 private:
  const std::filesystem::path folder_, old_;
};

// Name of a stage with state over all samples (abi/stage.h), "" if none. Without the earlier samples it
// cannot do single videos.
std::string keeps_state(const JobView&);

// Runs the stages over the inputs that have not ended, below the context's folder. may_begin: whether the input with
// this place among them may begin; the first that may not ends the work; empty: all may. ended: called after
// each outcome; may be empty. Throws kinora::Error.
PipelineResult run_stages(JobContext&, const CurateOptions&, const InputRows&, Record&,
                          const std::function<bool(size_t)>& may_begin = {},
                          const std::function<void()>& ended = {});

}  // namespace kinora::core
