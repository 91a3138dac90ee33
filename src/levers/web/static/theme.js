// Runs before the page is drawn, so that a page in the dark does not flash; everything else is in modules.
(() => {
  try {
    const theme = localStorage.getItem("levers-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* a browser that keeps nothing follows the system */ }
})();
