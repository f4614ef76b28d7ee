#include "asking_stage.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "kept_answers.hpp"

namespace kinora::endpoint {

void AskingStage::process(Sample in, const Emit& emit, const Run& run) {
  Json facts = json_field(in, "json");
  std::optional<Drop> drop;
  try {
    drop = answer(in, facts, run);
  } catch (const Error& e) {
    if (e.code() != KINORA_DATA) throw;
    KeptAnswers(run.out(), name_, in.key()).forget();
    // Only the usage of the failed attempt is still valid.
    const Json paid = object_in(facts, "usage");
    facts = json_field(in, "json");
    if (!paid.empty()) facts["usage"] = paid;
    if (options_.on_error != "keep") {
      in.set("json", dump(facts));
      return emit.fail(std::move(in), e.what());
    }
    object_in(facts, "errors")[name_] = e.what();
    log(Log::warn, name_ + ": " + e.what() + "; the sample is emitted without an answer");
  }
  if (!facts.empty()) in.set("json", dump(facts));
  if (drop) return emit.drop(std::move(in), name_.c_str(), drop->score);
  emit(std::move(in));
}

void AskingStage::finish(const Emit&, const Run&) {
  if (const auto sums = client_.sums(); !sums.empty()) log(Log::info, sums);
}

void AskingStage::count(const Usage& usage, Json& facts) const {
  Json& mine = object_in(object_in(facts, "usage"), name_.c_str());
  const auto add = [&](const char* what, auto more) {
    mine[what] =
        (mine.contains(what) && mine[what].is_number() ? mine[what].get<decltype(more)>() : 0) + more;
  };
  add("requests", usage.answered);
  add("prompt_tokens", usage.prompt);
  add("completion_tokens", usage.completion);
  if (client_.priced()) add("cost", client_.cost(usage));
}

Answered AskingStage::ask(const Question& question, Json& facts, const Run& run) const {
  Answered out = client_.ask(question, run);
  count(out.usage, facts);
  return out;
}

std::vector<Answered> AskingStage::ask_all(size_t n, const std::function<Question(size_t)>& question,
                                           Json& facts, const Run& run) const {
  std::vector<Answered> answers(n);
  std::vector<std::exception_ptr> errors(n);
  std::atomic<size_t> next{0};
  std::atomic<bool> broken{false};
  const auto work = [&] {
    for (size_t i = next++; i < n && !broken; i = next++) try {
        answers[i] = client_.ask(question(i), run);
      } catch (...) {
        errors[i] = std::current_exception();
        broken = true;
      }
  };
  {
    std::vector<std::jthread> threads;
    // If the account is busy with other samples, more threads would only wait.
    const auto useful = static_cast<size_t>(std::max<int64_t>(1, client_.free()));
    for (size_t t = 1; t < std::min(n, useful); ++t) threads.emplace_back(work);
    work();
  }
  for (const auto& one : answers)
    if (one.usage.answered > 0) count(one.usage, facts);
  client_.check_accepted();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return answers;
}

}  // namespace kinora::endpoint
