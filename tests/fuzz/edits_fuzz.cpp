// Any bytes as user files in a job's folder: edits.jsonl for the shard job and for the studio,
// items.jsonl and live.json for the studio's page. Values that can be written again, or an error that names
// the file.
#include <cstdlib>

#include "apps/studio/catalogue.hpp"
#include "apps/studio/edit_journal.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/edits.hpp"
#include "tests/fuzz/files.hpp"

namespace {

namespace core = kinora::core;
namespace studio = kinora::studio;

void as_edits(const std::filesystem::path& file) {
  try {
    const auto edits = core::read_edits(file);
    for (const auto& [key, edit] : edits.edited())
      if (key.empty()) std::abort();
  } catch (const kinora::Error& e) {
    if (std::string_view(e.what()).find("edits.jsonl: line ") == std::string_view::npos) std::abort();
  }
  studio::EditJournal journal(file, "fuzz");
  if (!journal.refresh()) std::abort();
  for (const auto& edit : journal.history().all()) {
    const auto again = core::parse_edit(core::line_of(edit));
    if (!again || again->key != edit.key || again->set != edit.set) std::abort();
    journal.history().now(edit.key);
  }
  journal.history().undoable("fuzz");
}

void as_items(const studio::JobFolder& job) {
  const auto catalogue = studio::read_catalogue({job});
  for (const auto& clip : catalogue.clips) {
    const auto item = studio::item_of(catalogue, clip);
    item.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    studio::media_of(catalogue, clip);
    if (const auto file = studio::stored_file(catalogue, clip, "txt"); !file.empty())
      std::abort();  // the file does not exist
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const kinora::fuzz::Folder folder;
  as_edits(folder.write("edits.jsonl", data, size));
  folder.write("items.jsonl", data, size);
  folder.write("live.json", data, size);
  const studio::JobFolder job{"job", folder.path()};
  as_items(job);
  studio::live_of(job, {}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return 0;
}
