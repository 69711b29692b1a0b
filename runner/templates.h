// The texts of templates/, which the build puts into the program (framework/cmake/embed.cmake).
#pragma once

#include <string_view>

namespace attnlab {

std::string_view template_licence();
std::string_view template_common_cmakelists_txt();
std::string_view template_common_readme_md();
std::string_view template_common_citation_cff();
std::string_view template_common_gitignore();
std::string_view template_common_ci_yml();
std::string_view template_common_config_yaml();
std::string_view template_attention_plugin_cpp();
std::string_view template_attention_test_cpp();
std::string_view template_attention_plugin_py();
std::string_view template_model_plugin_cpp();
std::string_view template_model_plugin_py();
std::string_view template_model_test_cpp();
std::string_view template_task_plugin_cpp();
std::string_view template_task_test_cpp();
std::string_view template_dataset_plugin_cpp();
std::string_view template_dataset_plugin_py();
std::string_view template_dataset_test_cpp();
std::string_view template_project_experiment_yaml();
std::string_view template_project_suite_yaml();
std::string_view template_project_readme_md();

}  // namespace attnlab
