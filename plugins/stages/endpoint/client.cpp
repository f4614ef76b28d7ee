#include "client.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include "answers.hpp"
#include "judging.hpp"
#include "kept_answers.hpp"
#include "kinora/random.hpp"

namespace kinora::endpoint {
namespace {

std::string key_of(const std::string& stage, const std::string& variable) {
  if (variable.empty()) return "";
  const char* value = std::getenv(variable.c_str());
  if (!value || !*value)
    throw Error(KINORA_ERROR_INVALID,
                stage + ": the environment variable " + variable +
                    ", named by api_key_env, is not set; export the server's key in it");
  const std::string key(value);
  for (const char c : key)
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f)
      throw Error(KINORA_ERROR_INVALID,
                  stage + ": the key in " + variable + " contains a space or a line break; remove it");
  return key;
}

std::string joined(std::string base, const std::string& path) {
  while (!base.empty() && base.back() == '/') base.pop_back();
  return base + path;
}

Json parse_extra(const std::string& stage, const std::string& text) {
  if (text.empty()) return Json::object();
  Json out = Json::parse(text, nullptr, false);
  if (!out.is_object()) throw Error(KINORA_ERROR_INVALID, stage + ": extra is not a JSON object: " + text);
  for (const char* own : {"messages", "model", "input", "stream"})
    if (out.contains(own))
      throw Error(KINORA_ERROR_INVALID,
                  stage + ": extra has '" + own + "', which the stage itself sets; remove it");
  return out;
}

}  // namespace

struct Client::Attempt : Judgement {
  bool nobody = false;  // no server was reached
};

Client::Client(std::string stage, const ServerOptions& options, const std::string& path)
    : stage_(std::move(stage)),
      url_(joined(options.base_url, path)),
      needed_(path == "/embeddings" ? "data" : "choices"),
      options_(options) {
  if (const auto wrong = wrong_url(options.base_url); !wrong.empty())
    throw Error(KINORA_ERROR_INVALID, stage_ + ": base_url " + wrong);
  if (!options.ca_file.empty() && !std::ifstream(options.ca_file))
    throw Error(KINORA_ERROR_INVALID, stage_ + ": ca_file " + options.ca_file + " cannot be read");
  key_ = key_of(stage_, options.api_key_env);
  extra_ = parse_extra(stage_, options.extra);
  account_ = Account::shared(options.base_url, options.model,
                             {options.concurrency, options.requests_per_minute, options.tokens_per_minute});
  if (!key_.empty() && goes_in_clear(url_))
    log(Log::warn, stage_ + ": the key is sent to " + url_ + " unencrypted; use https");
}

std::string Client::body(Json request) const {
  request.update(extra_);
  return dump(request);
}

Json Client::ask(const Question& question, const Run& run, Usage& paid) const {
  const Stop stop = [&] { run.check_cancelled(); };
  // The place is kept during a wait before a retry, so a failing server gets fewer requests and few bodies
  // are in memory.
  const Gate::Place place = account_->gate.enter(stop);
  check_accepted();
  const std::string body = question.body();
  const KeptAnswers kept(run.out(), stage_, question.key);
  if (auto known = kept.find(body)) {
    paid += usage_of(*known);
    account_->add(stage_, {.known = 1});
    return std::move(*known);
  }
  for (int64_t n = 0;; ++n) {
    const int64_t expected = account_->expected(question.tokens);
    account_->gate.start(expected, stop);
    Attempt made = attempt(body, stop);
    account_->gate.correct(made.usage.prompt + made.usage.completion - expected);
    account_->add(stage_, made.usage);
    paid += made.usage;
    if (made.answer && (!made.again || n == options_.retries)) {  // the caller refuses the last one
      kept.keep(body, *made.answer);
      return std::move(*made.answer);
    }
    if (!made.answer) require_retry(question, made, n);
    const double wait = std::max(made.retry_after, backoff(n, question.about(), run));
    if (made.retry_after > 0) account_->gate.pause(made.retry_after);
    log(Log::info,
        fmt::format("{}: {}: {}; retrying in {:.1f} s", stage_, question.about(), made.problem, wait));
    account_->add(stage_, {0, 1, 0, 0});
    account_->gate.sleep(wait, [&] {
      stop();
      check_accepted();
    });
  }
}

// Throws unless another attempt may succeed after attempt `n`, the first of which is 0.
void Client::require_retry(const Question& question, const Attempt& made, int64_t n) const {
  check_accepted();
  if (!made.again) give_up(question, made.problem);
  // Where no sample has reached the server yet, further attempts for each would only delay the end of the run.
  if (n == options_.retries || (made.nobody && account_->has_missed())) {
    const std::string told = made.problem + (n > 0 ? fmt::format(" ({} attempts)", n + 1) : "");
    if (made.nobody) miss(question, told);
    give_up(question, told);
  }
  if (made.retry_after > options_.longest_wait)
    give_up(question, fmt::format("{}; the server asks for a wait of {:.0f} s, longer than longest_wait",
                                  made.problem, made.retry_after));
}

// If a server that has answered becomes unreachable, only the samples of that time fail. If it was never
// reachable, the run file is wrong or the server has not started yet; the run stops, because every further
// clip would fail.
void Client::miss(const Question& question, const std::string& why) const {
  constexpr size_t kEnough = 8;  // samples
  const std::string start =
      "; start the server or set base_url of " + stage_ + ", then run again with --retry-failed";
  if (account_->missed(question.key) >= kEnough)
    account_->refuse(fmt::format(
        "{}; this happened for the first {} samples, and no request was ever answered{}: finished "
        "samples are kept",
        why, kEnough, start));
  check_accepted();
  give_up(question, why + start);
}

Client::Attempt Client::attempt(const std::string& body, const Stop& stop) const {
  Request request{
      url_, key_, body, options_.ca_file, options_.timeout, options_.connect_timeout, options_.answer_size};
  auto connection = account_->borrow();
  try {
    const Response response = connection->post(request, stop);
    account_->reached();
    account_->give_back(std::move(connection));
    Attempt out{judged(response, {stage_, url_, key_, options_.model, needed_}), false};
    if (!out.refused.empty()) account_->refuse(out.refused);
    return out;
  } catch (const Unanswered& e) {
    Attempt out;
    out.problem = url_ + ": " + e.what();
    out.again = e.again();
    out.nobody = e.nobody();
    return out;
  }
}

double Client::backoff(int64_t attempt, const std::string& about, const Run& run) const {
  const double full =
      std::min(options_.longest_wait, options_.backoff * std::exp2(static_cast<double>(attempt)));
  return full * (1 - 0.5 * Random(run.seed(), about).uniform(static_cast<uint64_t>(attempt))[0]);
}

// A refused key or model, or an unreachable server, affects every sample and is the fault of none, so the run
// ends.
void Client::check_accepted() const {
  if (const auto why = account_->refused(); !why.empty()) throw Error(KINORA_ERROR_REFUSED, why);
}

void Client::give_up(const Question& question, const std::string& why) const {
  throw Error(KINORA_ERROR_DATA, question.about() + ": " + why);
}

double Client::cost(const Usage& usage) const {
  return (static_cast<double>(usage.prompt) * options_.price_prompt +
          static_cast<double>(usage.completion) * options_.price_completion) /
         1e6;
}

std::string Client::sums() const {
  const Usage all = account_->take(stage_);
  if (all.answered + all.again + all.known == 0) return "";
  std::string out =
      fmt::format("{}, this run: {} requests answered, {} retried; {} prompt and {} completion tokens",
                  stage_, all.answered, all.again, all.prompt, all.completion);
  if (priced()) out += fmt::format(", cost {:.6g} in the currency of its prices", cost(all));
  if (all.known > 0) out += fmt::format("; {} kept answers were reused", all.known);
  return out;
}

}  // namespace kinora::endpoint
