// An instance of a stage, and the engine's side of it, for the checks of `kinora plugins validate`.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "apps/validate/trial_call.hpp"
#include "apps/validate/trial_samples.hpp"
#include "kinora/abi/stage.h"

namespace kinora {

// Counts the outcomes of the samples of one instance.
class TrialBooks {
 public:
  // out: the folder for files of this instance.
  TrialBooks(const core::ComponentSpec& spec, std::string out);
  TrialBooks(const TrialBooks&) = delete;
  TrialBooks& operator=(const TrialBooks&) = delete;

  const kinora_emit* emit() const { return &emit_; }
  const kinora_run* run() const { return &run_; }
  void begin(std::vector<std::string> keys) { current_ = std::move(keys); }
  // After a call: current inputs without an outcome are consumed, or failed.
  void over(const std::string& error);

  // From now on the run says that it must not be ignored.
  void need_unknown() { run_.needs = kUnknownNeed; }

  // By key: "emitted with ..." and a hash of each field, without the folder of the instance.
  std::map<std::string, std::string> outcomes;
  std::set<std::string> held;
  bool fails_emit = false;  // emit(), drop() and fail() answer that the run was cancelled
  std::string repeated;     // the first sample that ended twice, and how
  std::string changed;      // what a call changed in place, which clones share
  int n_errors = 0;

 private:
  int32_t take(kinora_sample* s, const std::string& how);
  void end(const std::string& key, const std::string& how);
  int32_t hold();
  int32_t stored(const std::string& key);
  int32_t made_of(const kinora_str* keys, uint64_t n);

  const core::ComponentSpec& spec_;
  const std::string out_;
  kinora_emit emit_{};
  kinora_run run_{};
  std::vector<std::string> current_;
};

// An instance and its books. Throws Skipped if create() or start() refuses.
class TrialStage {
 public:
  TrialStage(const PluginTrial&, const core::Options&);

  uint32_t batch() const;    // most inputs of process_batch(), 1 without it
  uint32_t ordered() const;  // of its resources
  // These return its error, "" for none. what: names the call in an error.
  std::string process(const TrialSample& given, const std::string& what);
  void require_refused(const TrialSample& given);
  void process_batch(const std::vector<TrialSample>& given);
  std::string finish();

 private:
  kinora_resources resources() const;

 public:
  TrialBooks books;

 private:
  const core::ComponentSpec& spec_;
  TrialInstance<kinora_stage> made_;
};

}  // namespace kinora
