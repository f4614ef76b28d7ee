// The inputs of a curate job as rows of a temporary file (Database::Access::scratch): what they take in memory does not
// grow with their number.
#pragma once
#include <functional>
#include <mutex>
#include <optional>

#include "plugins/jobs/curation/database.hpp"
#include "plugins/jobs/curation/inputs.hpp"

namespace kinora::core {

// The place of an input is its number, from 0. [any-thread] All functions; they throw kinora::Error.
class InputRows {
 public:
  InputRows();
  // Behind the last one.
  void add(const Input& input);
  // Removes the inputs from this place on, which have no keys yet.
  void truncate(size_t size);
  size_t size() const;
  // Bytes of all files.
  uint64_t bytes() const;
  // Inputs without an error.
  size_t usable() const;
  Input operator[](size_t at) const;
  // Calls `f` for each, in their order. `f` may change rows.
  void each(const std::function<void(size_t at, const Input& input)>& f) const;
  // Sets size and time of all inputs with this url that have none; returns their number.
  size_t set_file(const FoundFile& file);
  void set_time(size_t at, int64_t modified);
  // Whether one input alone has this file name.
  bool is_only(const std::string& file) const;

  // Keys, each of which one input has. reserve(): name_inputs() gives it to none.
  std::optional<size_t> find(const std::string& key) const;
  void reserve(const std::string& key);
  bool is_taken(const std::string& key) const;
  // Takes the keys from all inputs.
  void clear_keys();
  // False: it is taken.
  bool name(size_t at, const std::string& key);
  // "base", or the first of "base-2", "base-3", ... that is not taken.
  void name_like(size_t at, const std::string& base);
  // The same for an input with a key, which is free then.
  void rename_like(size_t at, const std::string& base);
  bool have_wanted() const { return have_wanted_; }  // whether a manifest gives any of them a key
  bool have_before() const { return have_before_; }  // whether any had a key before

  // Which rows of the job's record the inputs are (Input::recorded and key_before). forget_record(): none is any, and
  // no key is reserved.
  void forget_record();
  void set_recorded(size_t at, int64_t id, const std::string& key);
  std::optional<size_t> recorded(int64_t id) const;
  // The first input of this url, or of this file name from place `from` on, that is no row of the record.
  std::optional<size_t> unrecorded_at(const std::string& url) const;
  std::optional<size_t> unrecorded_called(const std::string& file, size_t from) const;

 private:
  std::vector<Input> some_from(size_t at, int64_t most) const;
  std::optional<size_t> place(Query& rows) const;
  bool take(size_t at, const std::string& key);
  void take_like(size_t at, const std::string& base);

  mutable std::mutex mutex_;
  mutable Database db_{"the list of inputs", Database::Access::scratch};
  size_t size_ = 0;
  bool have_wanted_ = false, have_before_ = false;
  mutable bool is_by_url_ = false, is_by_file_ = false;  // whether there is such an index
};

}  // namespace kinora::core
