// Checks of stages: what they do with samples, and what they leave behind.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>

#include "apps/validate/trial_stage.hpp"
#include "kinora/stage.hpp"

namespace kinora {
namespace stage_checks_of {
namespace {

constexpr size_t kSamples = 12;

// The outcomes of the usual samples. Throws Skipped if the stage can work on none of them.
std::map<std::string, std::string> outcomes_of(const PluginTrial& t, const core::Options& options) {
  TrialStage stage(t, options);
  std::string error;
  for (const auto& s : usual_samples(t, kSamples)) error = stage.process(s, "process()");
  stage.finish();
  if (stage.books.n_errors == static_cast<int>(kSamples))
    throw Skipped{"process() answers every sample with: " + error +
                  (t.subject.input.empty() ? "; give a video with --input FILE"
                                           : "; it needs more than the video of --input and the check's own "
                                             "facts and tensors: try it in a run file, after the stages that "
                                             "make the rest")};
  return stage.books.outcomes;
}

std::string check_samples(PluginTrial& t) {
  const core::Options options = t.options();
  for (const auto& s : hostile_samples(t)) {
    TrialStage stage(t, options);
    stage.process(s, "process() of a sample with " + s.what);
    stage.finish();
  }
  return "";
}

std::string check_unknown_needs(PluginTrial& t) {
  const core::Options options = t.options();
  TrialStage stage(t, options);
  stage.books.need_unknown();
  stage.require_refused(usual_samples(t, 1).front());
  return "";
}

std::string check_read_only(PluginTrial& t) {
  const core::Options options = t.options();
  TrialStage stage(t, options);
  for (const auto& s : usual_samples(t, kSamples)) stage.process(s, "process()");
  if (!stage.books.changed.empty())
    throw Error(KINORA_ERROR_FAILED,
                "process() changed bytes of a sample in place, which other samples share; make new "
                "ones, and set those: " +
                    stage.books.changed);
  return "";
}

std::string check_outcomes(PluginTrial& t) {
  const core::Options options = t.options();
  outcomes_of(t, options);  // Skipped if there is nothing to see
  TrialStage stage(t, options);
  const auto given = usual_samples(t, kSamples);
  const size_t batch = std::min<size_t>(stage.batch(), kSamples / 2);
  for (size_t at = 0; at < given.size(); at += std::max<size_t>(batch, 1))
    if (batch > 1 && at + batch <= given.size())
      stage.process_batch(
          {given.begin() + static_cast<ptrdiff_t>(at), given.begin() + static_cast<ptrdiff_t>(at + batch)});
    else
      for (size_t i = at; i < std::min(at + batch, given.size()); ++i) stage.process(given[i], "process()");
  const std::string why = stage.finish();
  if (!stage.books.repeated.empty())
    throw Error(KINORA_ERROR_FAILED, "two outcomes of sample " + stage.books.repeated +
                                         "; end each sample once, and give new samples keys of their own");
  if (!stage.books.held.empty() && why.empty())
    throw Error(KINORA_ERROR_FAILED,
                "sample '" + *stage.books.held.begin() +
                    "' was held and is lost: finish() neither emitted, dropped, failed nor "
                    "stored it");
  std::map<std::string, int> ends;
  for (const auto& [key, how] : stage.books.outcomes) ++ends[how.substr(0, how.find_first_of(": "))];
  std::string said;
  for (const auto& [end, n] : ends) said += fmt::format("{}{} {}", said.empty() ? "" : ", ", n, end);
  return fmt::format("{} samples in: {}", kSamples, said);
}

// "'clip-0003': emitted with ..., then ..." of the first that differs; "" if none does.
std::string difference_of(const std::map<std::string, std::string>& a,
                          const std::map<std::string, std::string>& b) {
  for (const auto* from : {&a, &b})
    for (const auto& [key, how] : *from) {
      const auto& other = from == &a ? b : a;
      const auto at = other.find(key);
      if (at == other.end() || at->second != how)
        return "'" + key + "': " + how.substr(0, 300) + " and " +
               (at == other.end() ? "nothing" : at->second.substr(0, 300));
    }
  return "";
}

std::string check_same_stage(PluginTrial& t) {
  const core::Options options = t.options();
  const auto once = outcomes_of(t, options);
  if (const auto differs = difference_of(once, outcomes_of(t, options)); !differs.empty())
    throw Error(KINORA_ERROR_FAILED, "two instances with the same options and samples differ in " + differs +
                                         "; draw random numbers from kinora_run.seed and the key only");
  return "";
}

std::string check_leaks(PluginTrial& t) {
  const core::Options options = t.options();
  for (const bool fails_emit : {false, true}) {
    TrialStage stage(t, options);
    stage.books.fails_emit = fails_emit;
    for (const auto& s : usual_samples(t, kSamples)) stage.process(s, "process()");
    stage.finish();
  }
  const int64_t left = watch().samples;
  if (left != 0)
    throw Error(KINORA_ERROR_FAILED,
                left > 0 ? fmt::format("{} references to samples were taken and never released", left)
                         : fmt::format("{} samples were released once too often", -left));
  return "";
}

std::string check_threads(PluginTrial& t) {
  const core::Options options = t.options();
  if (TrialStage(t, options).ordered() != 0)
    throw Skipped{"the engine makes one instance of it (resources.ordered)"};
  const auto alone = outcomes_of(t, options);
  if (!difference_of(alone, outcomes_of(t, options)).empty())
    throw Skipped{"its results differ without threads too"};
  std::vector<std::thread> threads;
  std::mutex lock;
  std::string wrong;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      std::string why;
      try {
        for (int k = 0; k < 3 && why.empty(); ++k) why = difference_of(alone, outcomes_of(t, options));
      } catch (const Skipped& s) {
        why = s.why;
      } catch (const std::exception& e) {
        why = e.what();
      }
      const std::lock_guard held(lock);
      if (wrong.empty()) wrong = why;
    });
  for (auto& one : threads) one.join();
  if (!wrong.empty())
    throw Error(KINORA_ERROR_FAILED, "four instances on four threads differ from one: " + wrong +
                                         "; instances share nothing (abi/stage.h)");
  return "";
}

std::string check_resources(PluginTrial& t) {
  const core::Options options = t.options();
  const TrialInstance<kinora_stage> made(t, options);
  for (const uint32_t room : {16u, static_cast<uint32_t>(sizeof(kinora_resources)), 96u}) {
    alignas(8) unsigned char space[128];
    std::fill(std::begin(space), std::end(space), 0xA5);
    std::memcpy(space, &room, sizeof room);
    auto* out = reinterpret_cast<kinora_resources*>(space);
    answer(fmt::format("resources() with room for {} bytes", room),
           [&] { return made.api.resources(made.self, out); });
    if (std::any_of(space + room, std::end(space), [](unsigned char c) { return c != 0xA5; }))
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("resources() writes behind a kinora_resources of {} bytes; copy it by "
                              "KINORA_FILL(out, &one)",
                              room));
    if (out->struct_size > room)
      throw Error(KINORA_ERROR_FAILED,
                  fmt::format("resources() sets struct_size to {} where the room is {}; use "
                              "KINORA_FILL(out, &one)",
                              out->struct_size, room));
    if (room == sizeof(kinora_resources)) check_known(*out, t.spec.id);
  }
  return "";
}

constexpr Check kChecks[] = {
    {"resources", "stage",
     "resources() keeps to the room of an older and a newer host's struct, and says known values", false,
     nullptr, check_resources},
    {"samples", "stage",
     "hostile samples get an answer: missing fields, 5 MiB of bytes, NaN, tensors that are empty, "
     "zero-dimensional, bf16",
     false, nullptr, check_samples},
    {"unknown-needs", "stage", "it refuses a run that needs what it does not know", false, nullptr,
     check_unknown_needs},
    {"read-only", "stage", "it leaves the bytes of fields and tensors that it was given as they are", false,
     nullptr, check_read_only},
    {"outcomes", "stage", "no sample is lost or has two outcomes", false, nullptr, check_outcomes},
    {"same-outcomes", "stage", "the same samples have the same outcomes, to the bit", false, nullptr,
     check_same_stage},
    {"sample-leaks", "stage", "every reference to a sample is released", false, nullptr, check_leaks},
    {"threads", "stage", "four instances on four threads do what one does", false, nullptr, check_threads}};

}  // namespace
}  // namespace stage_checks_of

std::span<const Check> stage_checks() { return stage_checks_of::kChecks; }

}  // namespace kinora
