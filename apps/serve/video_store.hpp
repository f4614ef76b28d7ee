// The videos that a server was asked for, on disk: what was accepted is there after any end of the server.
#pragma once
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/database.hpp"

namespace kinora::serve {

enum class Status { queued, in_progress, completed, failed };
const char* name_of(Status);

struct StoredVideo {
  std::string id, model;
  Status status = Status::queued;
  int64_t created = 0, completed = 0, expires = 0;  // seconds since 1970; 0: not yet
  nlohmann::json fields;                            // of the request, with defaults
  nlohmann::json error;                             // {code, message} of one that failed, else null
  std::string remixed_from;
  int64_t starts = 0;  // how often it was begun, without those that an end of the server cut
};

// [any-thread] Throws kinora::Error with the file's name.
class VideoStore {
 public:
  // Creates the database if it is missing. Videos that were in progress are queued again; the start that the end of
  // the server cut does not count. Videos with the field `awaited`, whose client was cut too, are gone.
  explicit VideoStore(const std::filesystem::path& file);

  // Adds a queued video. With a key that another video has, that one is returned and nothing is added.
  std::string add(const StoredVideo& video, const std::string& idempotency_key);
  std::optional<StoredVideo> find(const std::string& id) const;
  // "": none has this key.
  std::string id_of_key(const std::string& idempotency_key) const;
  // The oldest queued one of a model. alike: only one that was not begun yet, with this text in its field `alike`.
  std::optional<StoredVideo> next(const std::string& model, const std::string& alike = "") const;
  // The same one; it is in progress from now on.
  std::optional<StoredVideo> begin_next(const std::string& model, const std::string& alike = "");
  // The models of all queued ones.
  std::vector<std::string> models_of_queued() const;
  // Back to the queue, in its old place.
  void requeue(const std::string& id);
  void complete(const std::string& id, int64_t now, int64_t expires, const nlohmann::json& fields);
  void fail(const std::string& id, int64_t now, int64_t expires, const nlohmann::json& error);
  // False: there was none.
  bool remove(const std::string& id);

  int64_t queued() const;
  // At most `limit` videos in the order of their creation, the newest first unless `ascending`, after the one named.
  // `after` that does not exist: nothing. more: whether others follow.
  std::vector<StoredVideo> page(const std::string& after, int64_t limit, bool ascending, bool& more) const;
  std::vector<std::string> expired(int64_t now) const;
  // Every video's id.
  std::vector<std::string> ids() const;

 private:
  StoredVideo read(const core::Query& row) const;
  std::optional<StoredVideo> oldest(const std::string& model,
                                    const std::string& alike) const;  // with the lock
  mutable std::mutex mutex_;
  mutable core::Database database_;
};

}  // namespace kinora::serve
