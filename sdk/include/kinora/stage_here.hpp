// A stage of a pipeline, called in this process: for engines, see abi/engine.h.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kinora/abi/engine.h"
#include "kinora/run.hpp"
#include "kinora/sample.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// The result for a stage's input, or for a new sample.
struct Given {
  Sample sample;
  bool is_input = false;
  uint32_t end = KINORA_OUTCOME_KEPT;  // KEPT: it is for the next stages, unless it was consumed
  bool consumed = false;
  std::string reason = {};  // the rule or the message
  double score = 0;         // of a rule
  int32_t status = KINORA_OK;
};

// An instance that cannot hold inputs. One thread at a time. Every Error that it throws ends the run, and
// names the stage.
class StageHere {
 public:
  // Creates and starts it. spec and run must outlive it.
  StageHere(const kinora_stage_spec& spec, const Run& run)
      : spec_(spec), run_(run), self_(spec.stage->create(host(), spec.options)) {
    if (!self_) require(KINORA_ERROR_FAILED);
    try {
      require(spec.stage->resources(self_, &resources_));
      if (KINORA_HAS(spec.stage, start) && spec.stage->start) require(spec.stage->start(self_, run.get()));
    } catch (...) {
      spec.stage->destroy(self_);
      throw;
    }
  }
  StageHere(const StageHere&) = delete;
  StageHere& operator=(const StageHere&) = delete;
  ~StageHere() { spec_.stage->destroy(self_); }

  const char* name() const { return spec_.name; }

  // Gives the samples that the stage made of one input, in order, and the input itself, once. An error of this
  // input alone is in the result; one that ends the run is thrown ("Errors" in abi/stage.h).
  std::vector<Given> process(const Sample& in) {
    std::vector<Given> out;
    const kinora_emit emit = to(out);
    const int32_t status = said([&] { return spec_.stage->process(self_, in.get(), &emit, run_.get()); });
    const std::string message(view(host()->last_error(host())));
    if (status == KINORA_ERROR_CANCELLED) run_.check_cancelled();
    const bool memory = status == KINORA_ERROR_IO || status == KINORA_ERROR_NO_MEMORY;
    if (status == KINORA_ERROR_REFUSED || (memory && resources_.ordered != 0)) require(status, message);
    const auto given =
        std::find_if(out.begin(), out.end(), [&](const Given& g) { return g.sample.key() == in.key(); });
    if (given != out.end()) {
      given->is_input = true;
      if (status != KINORA_OK) log(Log::warn, named(message) + " (after it had handed its input on)");
    } else if (status == KINORA_OK) {
      out.push_back({.sample = in, .is_input = true, .consumed = true});
    } else {
      out.push_back({.sample = in,
                     .is_input = true,
                     .end = KINORA_OUTCOME_FAILED,
                     .reason = message,
                     .status = status});
    }
    return out;
  }
  // No more inputs. An error ends the run, since no held input could report it.
  std::vector<Given> finish() {
    std::vector<Given> out;
    if (!KINORA_HAS(spec_.stage, finish) || !spec_.stage->finish) return out;
    const kinora_emit emit = to(out);
    require(said([&] { return spec_.stage->finish(self_, &emit, run_.get()); }));
    return out;
  }

 private:
  static int32_t give(void* to, Given given) {
    return guard([&] { static_cast<std::vector<Given>*>(to)->push_back(std::move(given)); });
  }
  kinora_emit to(std::vector<Given>& all) const {
    return {.struct_size = sizeof(kinora_emit),
            .self = &all,
            .emit = [](void* to, kinora_sample* s) { return give(to, {.sample = Sample::adopt(s)}); },
            .drop =
                [](void* to, kinora_sample* s, const char* rule, double score) {
                  return give(to, {.sample = Sample::adopt(s),
                                   .end = KINORA_OUTCOME_FILTERED,
                                   .reason = rule ? rule : "",
                                   .score = score});
                },
            .fail =
                [](void* to, kinora_sample* s, const char* why) {
                  return give(to, {.sample = Sample::adopt(s),
                                   .end = KINORA_OUTCOME_FAILED,
                                   .reason = why ? why : "",
                                   .status = KINORA_ERROR_DATA});
                }};
  }
  // A status without a message is not given the text of an older error.
  template <class F>
  static int32_t said(F&& call) {
    set_error(KINORA_OK, "");
    return call();
  }
  std::string named(const std::string& message) const {
    return "stage '" + std::string(spec_.name) + "': " + message;
  }
  void require(int32_t status) const { require(status, std::string(view(host()->last_error(host())))); }
  void require(int32_t status, const std::string& message) const {
    if (status != KINORA_OK) throw Error(status, named(message));
  }

  const kinora_stage_spec& spec_;
  const Run& run_;
  void* self_;
  kinora_resources resources_{.struct_size = sizeof(kinora_resources)};
};

}  // namespace kinora

KINORA_SDK_END
