// The clips of the studio's jobs with people's edits, up to date with the files on disk.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/studio/bounds.hpp"
#include "apps/studio/edit_journal.hpp"

namespace kinora::studio {

// [owner-thread] Throws Error: KINORA_ERROR_NOT_FOUND if a job's folder is gone.
class EditedCatalogue {
 public:
  // Reads the jobs. author: of the edits that are made here.
  EditedCatalogue(std::vector<JobFolder> jobs, const std::string& author);
  // The journals refer to the catalogue.
  EditedCatalogue(const EditedCatalogue&) = delete;
  EditedCatalogue& operator=(const EditedCatalogue&) = delete;

  // Reads what has changed. Checks the disk at most every second, and a running job every five seconds or less often,
  // unless `at_once`.
  void refresh(bool at_once = false);
  // f's answer; if an item's line has moved because its job has begun or ended meanwhile, the answer after
  // reading all again.
  nlohmann::json up_to_date(const std::function<nlohmann::json()>& f);

  const std::vector<JobFolder>& jobs() const { return jobs_; }
  const Catalogue& catalogue() const { return catalogue_; }
  const std::vector<StageBound>& bounds() const { return bounds_; }
  std::vector<EditJournal>& journals() { return journals_; }  // one per job
  const std::vector<EditJournal>& journals() const { return journals_; }

  // Changes whenever earlier answers may be stale.
  int64_t version() const { return version_; }
  // To be called after an edit.
  void change_version() { ++version_; }
  // How often the catalogue has been read: indices of clips are of one reading.
  int64_t readings() const { return readings_; }

  // Throws Error KINORA_ERROR_NOT_FOUND if there is no such clip, or not yet.
  const Clip& need(const std::string& id) const;
  Change edits_of(const Clip&) const;
  // Ids of the clips that would take its place if it were rejected.
  std::vector<std::string> copies_left(const Clip&) const;
  // No failed item, and no video without kept clips, can ever be packed. A filtered clip is stored once its rule is
  // loosened; the decision then takes effect.
  bool can_be_accepted(const Clip&) const;

 private:
  std::vector<JobFolder> jobs_;
  Catalogue catalogue_;
  std::vector<StageBound> bounds_;
  std::vector<EditJournal> journals_;
  std::string stamp_;
  int64_t version_ = 1, readings_ = 0;
  int64_t looked_ = 0;   // time of the last check, milliseconds of the steady clock
  int64_t reading_ = 0;  // time to read the catalogue, milliseconds
};

}  // namespace kinora::studio
