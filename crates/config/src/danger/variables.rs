//! Environment variables with which programs load other code or read other settings, by exact name.

/// Variables with which interpreters, loaders and shells run other code.
const CODE_LOADING: [&str; 91] = [
    "BASHOPTS",
    "BASH_ENV",
    "BROWSER",
    "BUNDLE_GEMFILE",
    "BUN_OPTIONS",
    "CLASSPATH",
    "COMSPEC",
    "CORECLR_ENABLE_PROFILING",
    "CORECLR_PROFILER",
    "CORECLR_PROFILER_PATH",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_SHARED_STORE",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "ENV",
    "ERL_AFLAGS",
    "ERL_FLAGS",
    "ERL_ZFLAGS",
    "FPATH",
    "GCONV_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GIO_EXTRA_MODULES",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "GRADLE_OPTS",
    "GTK_MODULES",
    "GTK_PATH",
    "GUILE_LOAD_PATH",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JULIA_DEPOT_PATH",
    "JULIA_LOAD_PATH",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_ORIGIN_PATH",
    "LD_PRELOAD",
    "LESSCLOSE",
    "LESSOPEN",
    "LUA_CPATH",
    "LUA_PATH",
    "MAKEFLAGS",
    "MAVEN_OPTS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PAGER",
    "PATH",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONBREAKPOINT",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONPYCACHEPREFIX",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "QT_PLUGIN_PATH",
    "RUBYLIB",
    "RUBYOPT",
    "RUBYSHELL",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "R_PROFILE",
    "R_PROFILE_USER",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "TCLLIBPATH",
    "VISUAL",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// Families of such variables: the loader of macOS, the settings of Git, the functions of bash, the start of Lua.
const CODE_LOADING_PREFIXES: [&str; 5] = ["BASH_FUNC_", "CARGO_TARGET_", "DYLD_", "GIT_CONFIG", "LUA_INIT"];

/// Variables that make programs read other settings or fetch other packages.
const SETTINGS: [&str; 44] = [
    "CARGO_HOME",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOTNET_ROOT",
    "DOTNET_ROOT_X64",
    "GOFLAGS",
    "GOPROXY",
    "HOME",
    "KUBECONFIG",
    "PIPX_BIN_DIR",
    "PIPX_DEFAULT_PYTHON",
    "PIPX_HOME",
    "PIP_CONFIG_FILE",
    "PIP_CONSTRAINT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "RESTOREADDITIONALPROJECTSOURCES",
    "RESTORECONFIGFILE",
    "RESTORESOURCES",
    "UV_BUILD_CONSTRAINT",
    "UV_CACHE_DIR",
    "UV_CONFIG_FILE",
    "UV_CONSTRAINT",
    "UV_DEFAULT_INDEX",
    "UV_ENV_FILE",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_INSECURE_HOST",
    "UV_OVERRIDE",
    "UV_PROJECT",
    "UV_PYTHON",
    "UV_PYTHON_DOWNLOADS_JSON_URL",
    "UV_PYTHON_INSTALL_DIR",
    "UV_PYTHON_INSTALL_MIRROR",
    "UV_TOOL_DIR",
    "UV_WORKING_DIRECTORY",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "YARN_REGISTRY",
];

/// Variables that make programs accept any certificate.
const UNCHECKED_TLS: [&str; 3] = ["GIT_SSL_NO_VERIFY", "NODE_TLS_REJECT_UNAUTHORIZED", "PYTHONHTTPSVERIFY"];

/// Variables that decide whose certificates programs trust.
const TRUSTED_CERTIFICATES: [&str; 7] = [
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Variables that decide where programs send their requests.
const PROXIES: [&str; 3] = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"];

/// The end of variables that replace the address of a service.
const BASE_URL_SUFFIX: &str = "_BASE_URL";

/// npm, Yarn and `NuGet` read each of their settings from a variable with these prefixes.
const SETTINGS_PREFIXES: [&str; 3] = ["NPM_CONFIG_", "NUGET_", "YARN_"];

/// Returns whether an environment variable makes programs load other code.
pub(crate) fn loads_code(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    CODE_LOADING.contains(&variable.as_str()) || CODE_LOADING_PREFIXES.iter().any(|group| variable.starts_with(group))
}

/// Returns whether an environment variable makes programs read other settings.
pub(crate) fn moves_settings(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    SETTINGS_PREFIXES.iter().any(|prefix| variable.starts_with(prefix)) || SETTINGS.contains(&variable.as_str())
}

/// Returns whether an environment variable decides whether programs check certificates.
pub(crate) fn weakens_tls(variable: &str) -> bool {
    UNCHECKED_TLS.contains(&variable.to_ascii_uppercase().as_str())
}

/// Returns whether an environment variable decides whose certificates programs trust.
pub(crate) fn adds_trust(variable: &str) -> bool {
    TRUSTED_CERTIFICATES.contains(&variable.to_ascii_uppercase().as_str())
}

/// Returns whether an environment variable decides where programs send their requests.
pub(crate) fn redirects_requests(variable: &str) -> bool {
    let variable = variable.to_ascii_uppercase();
    variable.ends_with(BASE_URL_SUFFIX) || PROXIES.contains(&variable.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_load_code_are_known_by_their_exact_names() {
        for name in [
            "PYTHONUSERBASE",
            "PYTHONHOME",
            "PERL5OPT",
            "RUBYOPT",
            "GIT_SSH_COMMAND",
            "DYLD_INSERT_LIBRARIES",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "BASH_FUNC_id%%",
            "GIT_CONFIG_COUNT",
            "LUA_INIT_5_4",
            "MAKEFLAGS",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
            "MAVEN_OPTS",
            "GRADLE_OPTS",
        ] {
            assert!(loads_code(name), "{name}");
        }
        for name in ["NODE_ENV", "PYTHONUNBUFFERED", "PYTHONUTF8", "GIT_AUTHOR_NAME", "LD_DEBUG", "JAVA_HOME", "PATHS"]
        {
            assert!(!loads_code(name) && !moves_settings(name), "{name}");
        }
        for name in [
            "npm_config_registry",
            "UV_INDEX_URL",
            "PIP_INDEX_URL",
            "HOME",
            "NUGET_PACKAGES",
            "RestoreSources",
            "DOCKER_CONTEXT",
        ] {
            assert!(moves_settings(name) && !loads_code(name), "{name}");
        }
    }

    #[test]
    fn variables_that_redirect_requests_or_add_trust_are_known() {
        for name in ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "requests_ca_bundle", "CURL_CA_BUNDLE"] {
            assert!(adds_trust(name) && !redirects_requests(name), "{name}");
        }
        for name in ["HTTPS_PROXY", "http_proxy", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"] {
            assert!(redirects_requests(name) && !adds_trust(name), "{name}");
        }
        for name in ["NO_PROXY", "BASE_URL_PREFIX", "SSL_CERT", "PROXY"] {
            assert!(!redirects_requests(name) && !adds_trust(name), "{name}");
        }
    }

    #[test]
    fn the_lists_are_sorted_and_without_duplicates() {
        assert!(CODE_LOADING.is_sorted_by(|a, b| a < b) && SETTINGS.is_sorted_by(|a, b| a < b));
    }
}
