#include "core/run/data_source.hpp"

#include "core/plugin/opening.hpp"
#include "core/run/run_file.hpp"

namespace kinora::core {

ReadSource source_reader(const Document& doc, Registry& registry, const std::filesystem::path& base,
                         std::vector<Diagnostic>& problems) {
  return [&](const std::string& pointer, const nlohmann::json& given) -> std::shared_ptr<const DataSource> {
    const auto use = read_component(doc, registry, pointer, "source", base, problems, given);
    if (!use) return nullptr;
    return std::make_shared<const DataSource>(
        use->id, use->version, use->options.values(),
        [&registry, id = use->id, options = use->options](const std::string& path) {
          return std::make_unique<SourceInstance>(open_component(registry, "source", id), options, path);
        },
        use->results);
  };
}

}  // namespace kinora::core
