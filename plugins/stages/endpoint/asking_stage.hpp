// What the stages of this plugin have in common: a client, and what becomes of a sample without a usable
// answer.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client.hpp"
#include "facts.hpp"
#include "kinora/stage.hpp"

namespace kinora::endpoint {

// One sample at a time is asked about by a worker, which sleeps meanwhile: so what is answered goes on, and
// is recorded, at once, and what waits is counted as the pipeline's memory. The engine may give this stage
// many workers because they take next to no core; the account bounds how many of them ask at the same time.
class AskingStage : public Stage {
 public:
  void process(Sample in, const Emit& emit, const Run& run) final;
  void finish(const Emit&, const Run&) final;
  kinora_resources resources() const final { return {sizeof(kinora_resources), 0, kCores, 0.0, 0}; }

 protected:
  // Not 0, which would mean as many workers as cores; so little that all workers together leave the cores to
  // others.
  static constexpr double kCores = 1e-9;
  AskingStage(std::string name, const ServerOptions& options, const std::string& path)
      : name_(std::move(name)), options_(options), client_(name_, options, path) {}

  // Why a sample ends here.
  struct Drop {
    double score;
  };
  // Sets fields of the sample and its facts, which are stored afterwards. Error(KINORA_DATA): there is no
  // usable answer; option on_error decides.
  virtual std::optional<Drop> answer(Sample& in, Json& facts, const Run& run) = 0;

  // Asks and adds what it took to the facts ("usage"). about: the sample's key, or a part of it.
  Answered ask(const Question&, Json& facts, const Run&) const;
  // The same for n questions, several at once; question(i) and the answers are numbered alike. The first
  // error ends it, and no further question is asked.
  std::vector<Answered> ask_all(size_t n, const std::function<Question(size_t)>& question, Json& facts,
                                const Run&) const;
  const std::string& name() const { return name_; }
  const Client& client() const { return client_; }

 private:
  void count(const Usage&, Json& facts) const;
  std::string name_;
  ServerOptions options_;
  Client client_;
};

}  // namespace kinora::endpoint
