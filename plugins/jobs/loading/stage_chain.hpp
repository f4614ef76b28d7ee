// Stages one after the other without an engine: in one thread, a sample at a time.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "host/stages/one_stage.hpp"

namespace kinora::core {

class StageChain {
 public:
  // stages: a JSON array, as `stages` of a curate job: names, or objects of "use" and options. Throws
  // Error(KINORA_ERROR_INVALID) for an unknown stage or option. to: borrowed; needs emit, drop and fail only.
  StageChain(Registry&, const json& stages, const kinora_emit& to, const kinora_run& run,
             const Isolation& isolation = {});

  // Calls every stage that the sample reaches before it returns. A sample on which a stage fails is passed to
  // to.fail; an error that is about no sample (KINORA_ERROR_REFUSED, KINORA_ERROR_CANCELLED) is thrown, and
  // so is what `to` returns.
  void process(Sample sample) { process(0, std::move(sample)); }
  // Ends what the stages still hold.
  void finish();
  // Whether the stages serve other samples after finish(), as if they were new.
  bool can_continue() const;
  // The stage of a chain of one, else null.
  StageInstance* only() { return links_.size() == 1 ? links_.front().stage.get() : nullptr; }

 private:
  struct Link {
    std::unique_ptr<StageInstance> stage;
    StageResults results{};
  };
  void process(size_t link, Sample sample);
  // Passes on the outcomes of one call.
  void forward(size_t link);
  std::vector<Link> links_;
  const kinora_emit& to_;
  const kinora_run& run_;
};

}  // namespace kinora::core
