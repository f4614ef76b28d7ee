// Search by meaning: similarity of clips to a text, by the vectors of their captions (a job of kind
// embed-text), or to another clip, by image embeddings (stages embed.*).
//
// One thread reads the vectors, again whenever the run has grown, and answers questions one at a
// time, the newest first. The caller waits; the rest of the studio does not.
#pragma once
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "apps/studio/catalogue.hpp"
#include "apps/studio/map.hpp"
#include "plugins/jobs/curation/search/search.hpp"

namespace kinora::studio {

constexpr size_t kMapped = 20000;  // most clips of a map

struct Question {
  std::string text;                           // if empty, `like` is used
  std::string like, embedding;                // id of a clip, and a name from Offer::pictures, "": its first
  std::map<std::string, std::string> edited;  // for a text: edited captions by id
  bool map = false;                           // asks for the places of all clips by `embedding` instead
  bool operator==(const Question&) const = default;
};

struct Ranking {
  std::unordered_map<std::string, double> similarity;  // cosine by clip id
  std::string why;                                     // why there is no such order; "": there is one
  // For a map: clips with their places; at most kMapped, evenly chosen among `all`.
  std::vector<std::pair<std::string, Place>> places = {};
  size_t all = 0;
  std::string remark = {};          // that nothing matches the text; "": something may
  double unmatched = std::nan("");  // the largest similarity that is too small for a match; NaN: none
};

// The searches that are possible now.
struct Offer {
  bool text = false;
  std::string why_not_text;
  std::vector<std::string> pictures;  // names of image embeddings, classic first
};

class Meaning {
 public:
  // Encodes texts with the encoder that embedded the captions. Called from one thread.
  using Encode = std::function<std::vector<std::vector<float>>(const nlohmann::json& encoder,
                                                               const std::vector<std::string>& texts)>;
  // `folder`: the folder that the studio was started with.
  Meaning(const std::filesystem::path& folder, std::vector<JobFolder> jobs, Encode encode);
  ~Meaning();
  Meaning(const Meaning&) = delete;
  Meaning& operator=(const Meaning&) = delete;

  // [any-thread]
  Offer offer() const;
  // Waits for the answer. Errors are in `why`.
  std::shared_ptr<const Ranking> ask(Question);

 private:
  struct PendingQuestion {
    Question question;
    std::shared_ptr<const Ranking> answer;  // null until it is available
  };
  void work();
  // Used by the thread only.
  std::string stamp() const;
  void look();
  Ranking answer(const Question&);
  Ranking to_text(const Question&);
  static void add_matches(const core::Embedded&, Ranking&);
  Ranking to_clip(const Question&);
  Ranking map(const Question&);
  std::string embedding_of(const Question&) const;
  const core::Embedded& captions();
  const core::Embedded& pictures(const std::string& name);
  void encode(const Question&, const core::Embedded&);
  // "" for a clip that is in none of the jobs.
  std::string id_of(const core::ClipRef&);

  const std::filesystem::path run_;  // the run's folder, which contains the other jobs
  const std::vector<JobFolder> jobs_;
  const Encode encode_;
  std::string stamp_;
  std::unique_ptr<core::Collection> collection_;
  std::unique_ptr<core::Embedded> captions_;
  std::map<std::string, core::Embedded> pictures_;
  std::unordered_map<std::string, std::vector<float>> vectors_;  // by text
  std::map<std::filesystem::path, std::string>
      job_of_;  // data folder -> "JOB/"; "": the folder of another run

  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  bool stops_ = false;
  Offer offer_;
  std::list<std::shared_ptr<PendingQuestion>> asked_;  // waiting, the newest first
  std::list<std::shared_ptr<PendingQuestion>> known_;  // the latest answers, the newest first
  std::thread thread_;
};

}  // namespace kinora::studio
