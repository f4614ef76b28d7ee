#include "kinora/plugin.hpp"

#include "webdataset_stage.hpp"

using kinora::shard::WebDatasetStage;
KINORA_COMPONENT(WebDatasetStage)
KINORA_PLUGIN(WebDatasetStage)
