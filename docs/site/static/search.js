// Searches the titles and texts of all pages. The index is a script, so that it also loads from a
// file: URL. It is loaded at the first use.
(() => {
  const base = document.currentScript.src.replace(/search\.js.*$/, '');
  const input = document.getElementById('search');
  const results = document.getElementById('results');
  let loading;

  const load = () => loading ||= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = base + 'search-index.js';
    script.onload = () => resolve(window.searchIndex.map(
      (page) => ({...page, lowTitle: page.title.toLowerCase(), lowText: page.text.toLowerCase()})));
    script.onerror = reject;
    document.head.append(script);
  });

  const show = (pages, words) => {
    results.replaceChildren(...pages.slice(0, 12).map((page) => {
      const item = document.createElement('li');
      const link = document.createElement('a');
      link.href = base + page.url;
      link.textContent = page.title;
      const at = Math.max(0, page.lowText.indexOf(words[0]) - 40);
      const excerpt = document.createElement('small');
      excerpt.textContent = page.text.slice(at, at + 120);
      item.append(link, excerpt);
      return item;
    }));
    results.hidden = false;
  };

  input.addEventListener('focus', load);
  input.addEventListener('input', async () => {
    const index = await load();
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      results.hidden = true;
      return;
    }
    const score = (page) => words.filter((word) => page.lowTitle.includes(word)).length;
    show(index
      .filter((page) => words.every((word) => page.lowTitle.includes(word) || page.lowText.includes(word)))
      .sort((a, b) => score(b) - score(a)), words);
  });
})();
