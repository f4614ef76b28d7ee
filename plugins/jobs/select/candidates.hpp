// The clips that a select job chooses from, and what its condition says about each.
#pragma once
#include <filesystem>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plugins/jobs/curation/edits.hpp"
#include "plugins/jobs/curation/where.hpp"
#include "plugins/jobs/select/user_tables.hpp"

namespace kinora::core {

constexpr int kStays = -1;      // nothing has removed the clip
constexpr int kCameNotIn = -2;  // an earlier job has left it out

struct Candidate {
  std::string key;
  std::string line;         // of decisions.jsonl; unless kCameNotIn without "end" and the last brace
  std::string bin;          // values of the facts that `per` names; no two bins have one text
  double share = 0;         // in [0, 1): decides its set
  int removed_by = kStays;  // place in CandidateReader::steps()
  bool is_accepted =
      false;  // a person decided to keep it: no condition removes it, unless `where` names sets
};

// The clips that a select job reads, and how it chooses among them.
struct Choice {
  std::string name;               // of the job: two jobs split clips into sets independently of each other
  std::filesystem::path curated;  // folder of the curate job
  std::filesystem::path
      decisions;  // decisions.jsonl of the job that it reads; empty: it reads the curate job
  Where where;
  std::vector<std::string> per;
  std::string sets_by, join_key;
  std::vector<UserTable> tables;
  size_t threads = 0;
};

// Which rows of a table are about clips that came in.
struct Joined {
  size_t clips = 0;  // those with a row
  std::unordered_set<const UserTable::Row*> rows = {};
};

class CandidateReader {
 public:
  explicit CandidateReader(Choice choice);

  // All kept clips of the curate job, in the order of its items.jsonl. Throws kinora::Error, KINORA_ERROR_INVALID for a
  // fact that no clip has, a table without a row for any clip, or a name that is a fact of the clips and a column, too.
  std::vector<Candidate> read();

  // The rules that remove clips, in this order: studio.reject, the conditions of `where`.
  const std::vector<std::string>& steps() const { return steps_; }
  // Which rows of each table are about clips; in the order of tables().
  const std::vector<Joined>& joined() const { return joined_; }
  const std::vector<UserTable>& tables() const { return choice_.tables; }

 private:
  struct Part;
  // A column of a table that an option names.
  struct NamedColumn {
    std::string option, name, table;
  };
  std::vector<NamedColumn> named_columns() const;
  void refuse_ambiguous(const nlohmann::json& facts) const;
  void look(nlohmann::json item, Part& part) const;
  static bool continue_from(const std::string& before, Candidate& clip, nlohmann::json& line,
                            nlohmann::json& facts);
  void join(nlohmann::json& line, nlohmann::json& facts, const std::string& key, Part& part) const;
  void take(Part part, std::vector<Candidate>& out);
  void require_all_seen() const;

  const Choice choice_;
  bool names_sets_ = false;  // `where` says which set is wanted, so it applies to accepted clips, too
  EditHistory edits_;
  std::unordered_map<std::string, std::string> before_;  // lines of `decisions`, by key
  std::vector<std::string> steps_;
  std::vector<NamedColumn> named_columns_;
  std::vector<Joined> joined_;
  std::vector<FactsSeen> seen_;
};

}  // namespace kinora::core
