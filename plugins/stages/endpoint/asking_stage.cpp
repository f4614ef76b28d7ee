#include "asking_stage.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
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
    if (e.code() != KINORA_ERROR_DATA) throw;
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

std::string_view AskingStage::caption_of(const Sample& sample, const char* to) const {
  const auto caption = sample.text("txt");
  if (!caption)
    throw Error(KINORA_ERROR_DATA, "sample '" + std::string(sample.key()) + "' has no caption to " + to +
                                       "; put a caption stage before " + name_);
  return *caption;
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

Json AskingStage::ask(const Question& question, Json& facts, const Run& run) const {
  return ask_all(
             1, [&](size_t) { return question; }, facts, run)
      .front();
}

std::vector<Json> AskingStage::ask_all(size_t n, const std::function<Question(size_t)>& question, Json& facts,
                                       const Run& run) const {
  std::vector<Json> answers(n);
  std::vector<Usage> paid(n);
  std::vector<std::exception_ptr> errors(n);
  std::atomic<size_t> next{0};
  std::atomic<bool> broken{false};
  const auto work = [&] {
    for (size_t i = next++; i < n && !broken; i = next++) try {
        answers[i] = client_.ask(question(i), run, paid[i]);
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
  for (const auto& usage : paid)
    if (usage.answered > 0) count(usage, facts);
  client_.check_accepted();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return answers;
}

bool captioned_by_user(const Sample& sample, const Json& facts) {
  if (!sample.text("txt")) return false;
  const auto caption = facts.find("caption");
  if (caption == facts.end() || !caption->is_object() || !caption->contains("by")) return true;
  return caption->at("by") == "user";
}

Timeline timeline_of(const Json& facts, int64_t count) {
  Timeline out;
  const auto at = facts.find("frames_at");
  if (at == facts.end()) {
    for (int64_t i = 0; i < count; ++i) out.at.push_back(static_cast<double>(i));
    return out;
  }
  double before = -1e300;
  for (const auto& t : at->is_array() ? *at : Json::array()) {
    if (!t.is_number() || !std::isfinite(t.get<double>()) || t.get<double>() < before ||
        std::abs(t.get<double>()) > 1e9)
      break;
    before = t.get<double>();
    out.at.push_back(before);
  }
  if (static_cast<int64_t>(out.at.size()) != count)
    throw Error(KINORA_ERROR_DATA,
                "the fact frames_at must hold one rising number of seconds for each of the " +
                    std::to_string(count) + " frames");
  const auto number = [&](const char* name) {
    const auto found = facts.find(name);
    const double value = found != facts.end() && found->is_number() ? found->get<double>() : 0;
    return value > 0 && value < 1e9 ? value : 0;
  };
  out.fps = number("fps");
  out.frames = out.fps > 0 ? static_cast<int64_t>(number("frames")) : 0;
  return out;
}

}  // namespace kinora::endpoint
