// Search by meaning: how near clips are to a text, by the vectors of their captions (a job of kind
// embed-text), or to another clip, by an embedding of their pictures (stages embed.*).
//
// One thread reads the vectors, once and again when the run has grown, and answers one question after the
// other, the newest first; whoever asks waits, and the studio goes on.
#pragma once
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "apps/studio/catalogue.hpp"
#include "plugins/jobs/curation/search/search.hpp"

namespace kinora::studio {

struct Question {
  std::string text;             // or, if it is empty:
  std::string like, embedding;  // the id of a clip, and a name of Offer::pictures, "": its first
  std::map<std::string, std::string> edited;  // for a text: captions by id that people have changed
  bool operator==(const Question&) const = default;
};

struct Ranking {
  std::unordered_map<std::string, double> similarity;  // cosine, by the clip's id
  std::string why;                                     // there is no such order; "": there is
};

// What can be asked by now.
struct Offer {
  bool text = false;
  std::string why_not_text;
  std::vector<std::string> pictures;  // names of embeddings, classic first
};

class Meaning {
 public:
  // Texts as vectors, as the captions of this encoder were embedded. Called by one thread.
  using Encode = std::function<std::vector<std::vector<float>>(const nlohmann::json& encoder,
                                                               const std::vector<std::string>& texts)>;
  // `folder`: as the studio was given it.
  Meaning(const std::filesystem::path& folder, std::vector<JobFolder> jobs, Encode encode);
  ~Meaning();
  Meaning(const Meaning&) = delete;
  Meaning& operator=(const Meaning&) = delete;

  // [any-thread]
  Offer offer() const;
  // Waits until it is known. What goes wrong is `why`.
  std::shared_ptr<const Ranking> ask(Question);

 private:
  struct Asked {
    Question question;
    std::shared_ptr<const Ranking> answer;  // null until it is known
  };
  void work();
  // By the thread alone.
  std::string stamp() const;
  void look();
  Ranking answer(const Question&);
  Ranking to_text(const Question&);
  Ranking to_clip(const Question&);
  const core::Embedded& captions();
  const core::Embedded& pictures(const std::string& name);
  void encode(const Question&, const core::Embedded&);
  // "" of a clip that is in none of the jobs.
  std::string id_of(const core::ClipRef&);

  const std::filesystem::path run_;  // the folder of the run, where other jobs are
  const std::vector<JobFolder> jobs_;
  const Encode encode_;
  std::string stamp_;
  std::unique_ptr<core::Collection> collection_;
  std::unique_ptr<core::Embedded> captions_;
  std::map<std::string, core::Embedded> pictures_;
  std::unordered_map<std::string, std::vector<float>> vectors_;  // of texts
  std::map<std::filesystem::path, std::string> job_of_;          // data folder -> "JOB/", "" of a stranger's

  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  bool stops_ = false;
  Offer offer_;
  std::list<std::shared_ptr<Asked>> asked_;  // waiting, the newest first
  std::list<std::shared_ptr<Asked>> known_;  // the last answers, the newest first
  std::thread thread_;
};

}  // namespace kinora::studio
